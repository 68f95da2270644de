import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import SoftmaxGate
from tests.keras_moe.layers.gates.reference import build_with
from tests.keras_moe.layers.layer_test import check_layer

X = np.array([[1.0, 2.0]], "float32")
KERNEL = np.log(np.array([[1.0, 2.0], [2.0, 1.0]], "float32"))
BIAS = np.log(np.array([3.0, 1.0], "float32"))


def test_weights_by_hand():
    gate = SoftmaxGate(2)
    build_with(gate, {"x": X, "kernel": KERNEL, "bias": BIAS})
    # exp(xA + c) = [1 · 2² · 3, 2 · 1² · 1] = [12, 2].
    np.testing.assert_allclose(to_numpy(gate(X)), [[6 / 7, 1 / 7]], rtol=1e-6)


def test_without_bias():
    gate = SoftmaxGate(2, use_bias=False)
    build_with(gate, {"x": X, "kernel": KERNEL})
    assert gate.bias is None
    np.testing.assert_allclose(to_numpy(gate(X)), [[2 / 3, 1 / 3]], rtol=1e-6)


def test_static_weights_ignore_the_inputs():
    gate = SoftmaxGate(2, static=True)
    build_with(gate, {"bias": BIAS})
    np.testing.assert_allclose(to_numpy(gate(X)), [0.75, 0.25], rtol=1e-6)


def test_is_dense():
    gate = SoftmaxGate(4)
    assert gate.k is None
    assert not gate.always_sparse


def test_weights_have_the_documented_shapes():
    gate = SoftmaxGate(4)
    gate.build((None, 3))
    assert gate.kernel.shape == (3, 4)
    assert gate.bias.shape == (4,)
    assert not to_numpy(gate.bias).any()


@pytest.mark.parametrize(
    ("arguments", "output_shape", "trainable_weights"),
    [
        ({}, (6, 5), 2),
        ({"use_bias": False, "kernel_regularizer": "l2"}, (6, 5), 1),
        ({"static": True}, (5,), 1),
    ],
)
def test_layer(arguments, output_shape, trainable_weights, rng, tmp_path):
    check_layer(
        lambda: SoftmaxGate(5, **arguments),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=output_shape,
        trainable_weights=trainable_weights,
        follows_policy=False,
    )


def test_refuses_a_static_gate_without_bias():
    with pytest.raises(
        ValueError, match=r"`use_bias` must be True for a static.*Received: "
    ):
        SoftmaxGate(3, static=True, use_bias=False)


def test_refuses_a_static_flag_that_is_no_boolean():
    with pytest.raises(
        TypeError, match=r"`static` must be a boolean. Received: static=1"
    ):
        SoftmaxGate(3, static=1)
