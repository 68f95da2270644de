"""That a gradient has only the convolutions that have a fast kernel.

Their values: `test_pull_back.py`.
"""

import keras
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("the form of JAX", allow_module_level=True)

import jax
import jax.numpy as jnp

from keras_moe.ops._canonical_convolutions import with_canonical_convolutions

CANONICAL = jax.lax.conv_dimension_numbers(
    (1,) * 4, (1,) * 4, ("NHWC", "HWIO", "NHWC")
)


def orders(function: object, *args: object) -> set[object]:
    """The orders of axes of all convolutions in a function."""
    return {
        equation.params["dimension_numbers"]
        for equation in jax.make_jaxpr(function)(*args).eqns
        if equation.primitive is jax.lax.conv_general_dilated_p
    }


def test_all_convolutions_of_a_gradient_are_canonical() -> None:
    inputs, kernel = jnp.ones((2, 9, 8, 4)), jnp.ones((3, 2, 4, 6))

    def loss(inputs: object, kernel: object) -> object:
        outputs = keras.ops.conv(inputs, kernel, data_format="channels_last")
        return jnp.sum(outputs**2)

    gradient = jax.grad(loss, (0, 1))
    assert orders(gradient, inputs, kernel) > {CANONICAL}
    changed = with_canonical_convolutions(gradient)
    assert orders(changed, inputs, kernel) == {CANONICAL}
