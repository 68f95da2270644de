import keras
import numpy as np
import pytest

if keras.backend.backend() != "tensorflow":
    pytest.skip("counts in TensorFlow's graph", allow_module_level=True)

import tensorflow as tf

from recsys.reporting.graph_flops import graph_flops

ROWS = np.ones((3, 4), "float32")


@pytest.mark.parametrize(
    ("function", "inputs", "multiplications"),
    [
        (lambda x: x @ tf.ones((4, 5)), ROWS, 3 * 4 * 5),
        (lambda x: tf.matmul(x, x, transpose_a=True), ROWS, 4 * 3 * 4),
        (lambda x: tf.matmul(x, x, transpose_b=True), ROWS, 3 * 4 * 3),
        (
            lambda x: tf.matmul(x, x, adjoint_a=True),
            np.ones((2, 3, 4), "float32"),
            2 * 4 * 3 * 4,
        ),
        (
            lambda x: tf.einsum("nd,edh->neh", x, tf.ones((2, 4, 5))),
            ROWS,
            3 * 4 * 2 * 5,
        ),
        (
            keras.layers.Conv2D(6, 3, padding="same"),
            np.ones((1, 8, 8, 2), "float32"),
            8 * 8 * 6 * 3 * 3 * 2,
        ),
        (lambda x: tf.nn.softmax(x) + 1.0, ROWS, 0),
    ],
)
def test_products_are_counted(function, inputs, multiplications) -> None:
    assert graph_flops(function, inputs) == 2 * multiplications


def test_a_product_without_a_static_shape_is_refused() -> None:
    def chosen(x):
        return tf.boolean_mask(x, x[:, 0] > 0) @ tf.ones((4, 5))

    with pytest.raises(ValueError, match="must have static shapes"):
        graph_flops(chosen, ROWS)
