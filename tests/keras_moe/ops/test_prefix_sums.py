import sys

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops.routing_plan import prefix_sums


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 100])
@pytest.mark.parametrize(
    "for_xla", [False, *[True] * (keras.backend.backend() == "tensorflow")]
)
def test_they_are_cumulative_sums(
    rows: int,
    for_xla: bool,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        sys.modules["keras_moe.ops.routing_plan"],
        "is_traced_for_xla",
        lambda: for_xla,
    )
    values = rng.integers(0, 5, (rows, 3)).astype("int32")
    sums = to_numpy(prefix_sums(values))
    np.testing.assert_array_equal(sums, np.cumsum(values, axis=0))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow traces with an unknown number of rows",
)
def test_an_unknown_number_of_rows_compiles(rng: np.random.Generator) -> None:
    import tensorflow as tf

    compiled = tf.function(
        prefix_sums,
        input_signature=[tf.TensorSpec((None, 3), tf.int32)],
        jit_compile=True,
    )
    for rows in (1, 6, 33):
        values = rng.integers(0, 5, (rows, 3)).astype("int32")
        sums = compiled(values).numpy()
        np.testing.assert_array_equal(sums, np.cumsum(values, axis=0))
