"""Convolutions in the form that has a fast kernel on processors, on JAX.

XLA's kernel for processors takes batches `(N, *spatial, C)` with filters
`(*spatial, C, D)` alone. A gradient has other orders; XLA changes them itself,
but not inside of loops and branches, where a gradient then takes up to 14 times
as long.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from keras_moe.private_names import bind_again
from keras_moe.private_names import is_literal
from keras_moe.types import Tensor


def with_canonical_convolutions(
    function: Callable[..., Sequence[Tensor]],
) -> Callable[..., Sequence[Tensor]]:
    """The function, its convolutions in the form of the fast kernel.

    Args:
        function: Takes and returns tensors. Convolutions of functions that it
            calls compiled, as with `jax.jit`, stay as they are.
    """

    def changed(*args: Tensor) -> Sequence[Tensor]:
        jaxpr = jax.make_jaxpr(function)(*args)
        return _evaluate(jaxpr, args)

    return changed


def _evaluate(closed: Any, args: Sequence[Tensor]) -> list[Tensor]:
    jaxpr = closed.jaxpr
    values = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, args, strict=True))

    def read(variable: Any) -> Tensor:
        if is_literal(variable):
            return variable.val
        return values[variable]

    for equation in jaxpr.eqns:
        operands = map(read, equation.invars)
        if equation.primitive is jax.lax.conv_general_dilated_p:
            results: Any = _convolve(*operands, **equation.params)
        else:
            results = bind_again(equation, list(operands))
        if not equation.primitive.multiple_results:
            results = [results]
        values.update(zip(equation.outvars, results, strict=True))
    return list(map(read, jaxpr.outvars))


def _convolve(
    inputs: jax.Array,
    filters: jax.Array,
    *,
    dimension_numbers: jax.lax.ConvDimensionNumbers,
    **params: object,
) -> jax.Array:
    """`conv_general_dilated`, in one order of axes whatever was asked for."""
    batch, channels, *spatial = dimension_numbers.lhs_spec
    inputs = inputs.transpose(batch, *spatial, channels)
    units, channels, *spatial = dimension_numbers.rhs_spec
    filters = filters.transpose(*spatial, channels, units)
    last = len(spatial) + 1
    outputs = jax.lax.conv_general_dilated_p.bind(
        inputs,
        filters,
        dimension_numbers=jax.lax.ConvDimensionNumbers(
            (0, last, *range(1, last)),
            (last, last - 1, *range(last - 1)),
            (0, last, *range(1, last)),
        ),
        **params,
    )
    batch, units, *spatial = dimension_numbers.out_spec
    return outputs.transpose(np.argsort((batch, *spatial, units)))
