from collections.abc import Callable

import keras
from keras import ops

from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


def iterate(
    step: Callable[[Tensor], Tensor],
    value: Tensor,
    times: IntegerLike,
    max_times: int | None = None,
) -> Tensor:
    """Applies `step` to `value` a number of times, in one loop.

    Reverse mode differentiates it on every backend, XLA included, at the
    compile time of a single step: unrolled, a hundred steps take minutes.

    Args:
        step: Function of a tensor that returns one of the same shape.
        value: The tensor to start from.
        times: Integer `>= 0`, or a scalar integer tensor.
        max_times: Integer that `times` never exceeds. Needed where `times`
            is a tensor; otherwise `times` itself.

    Returns:
        The tensor after the last step.

    Example:
        >>> float(iterate(lambda value: 2.0 * value, np.ones(()), times=5))
        32.0
    """
    value = ops.convert_to_tensor(value)
    bound = times if max_times is None else max_times
    times = ops.cast(times, "int32")
    if keras.backend.backend() == "jax":
        # Reverse mode needs a loop of a static length.
        return ops.cond(
            times > 0,
            lambda: ops.fori_loop(
                0,
                bound,
                lambda i, current: ops.where(i < times, step(current), current),
                value,
            ),
            lambda: value,
        )
    # XLA differentiates a loop of TensorFlow only where its bound is given,
    # which `fori_loop` does not do.
    return ops.while_loop(
        lambda i, _: i < times,
        lambda i, current: (i + 1, step(current)),
        (0, value),
        maximum_iterations=bound,
    )[1]
