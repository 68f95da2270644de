from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._pull_back import pull_back
from tests.gradients import gradient

if keras.backend.backend() == "torch":
    pytest.skip("PyTorch needs no loop of its own", allow_module_level=True)

IMAGES, ROWS = (2, 9, 8, 4), (2, 9, 4)
CASES = {
    "plain": (IMAGES, (3, 2, 4, 6), {}),
    "strided": (IMAGES, (3, 3, 4, 6), {"strides": 2}),
    "padded": (IMAGES, (3, 3, 4, 6), {"strides": (2, 1), "padding": "same"}),
    "dilated": (IMAGES, (3, 2, 4, 6), {"dilation_rate": 2}),
    "in groups": (IMAGES, (3, 3, 2, 6), {}),
    "one dimension": (ROWS, (3, 4, 5), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_convolutions_in_a_loop(
    case: str, rng: np.random.Generator
) -> None:
    shape, kernel_shape, options = CASES[case]
    inputs = rng.normal(size=shape).astype("float32")
    kernel = rng.normal(size=kernel_shape).astype("float32")

    def convolve(inputs: Any, kernel: Any) -> Any:
        outputs = ops.conv(
            inputs, kernel, data_format="channels_last", **options
        )
        return ops.tanh(outputs)

    def loss(inputs: Any, kernel: Any) -> Any:
        return ops.sum(ops.square(convolve(inputs, kernel)))

    def pulled(_: Any, grads: Any) -> Any:
        tensors = list(map(ops.convert_to_tensor, (inputs, kernel)))
        above = 2 * convolve(*tensors)
        return tuple(map(ops.add, grads, pull_back(convolve, tensors, above)))

    zeros = ops.zeros(shape), ops.zeros(kernel_shape)
    grads = ops.fori_loop(0, 2, pulled, zeros)
    for grad, expected in zip(
        grads, gradient(loss, inputs, kernel), strict=True
    ):
        np.testing.assert_allclose(
            to_numpy(grad), 2 * to_numpy(expected), rtol=1e-4, atol=1e-4
        )


def test_an_integer_has_a_gradient_of_zeros() -> None:
    ids, table = ops.convert_to_tensor([2, 0]), ops.ones((3, 4))
    of_ids, of_table = pull_back(
        lambda ids, table: ops.take(table, ids, axis=0),
        [ids, table],
        ops.ones((2, 4)),
    )
    assert to_numpy(of_ids).tolist() == [0, 0]
    assert of_ids.dtype == ids.dtype
    assert to_numpy(ops.sum(of_table, axis=1)).tolist() == [4, 0, 4]
