import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._affine import affine


@pytest.mark.parametrize("leading", [(), (5,), (2, 5), (0,)])
@pytest.mark.parametrize("outputs", [(4,), (2, 4)])
def test_matches_numpy(leading, outputs, rng):
    inputs = rng.normal(size=(*leading, 3)).astype("float32")
    kernel = rng.normal(size=(3, *outputs)).astype("float32")
    bias = rng.normal(size=outputs).astype("float32")
    np.testing.assert_allclose(
        to_numpy(affine(inputs, kernel, bias)),
        np.tensordot(inputs, kernel, 1) + bias,
        rtol=1e-5,
        atol=1e-6,
    )


def test_without_bias():
    outputs = affine(np.ones((1, 2), "float32"), np.ones((2, 1), "float32"))
    assert to_numpy(outputs).tolist() == [[2.0]]
