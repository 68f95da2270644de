from keras import ops

from keras_moe.types import Tensor


def largest(
    x: Tensor,
    initial: float,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """The maximum over axes, which may be empty, on any device.

    `keras.ops.max` of Keras 3.15 makes its `initial` on the processor, on
    PyTorch, whatever device the other numbers are on; `keras.ops.min` does
    not.

    Args:
        x: Float tensor.
        initial: What is returned of nothing, and at least.
        axis: As in `keras.ops.max`.
        keepdims: As in `keras.ops.max`.
    """
    return -ops.min(-x, axis=axis, keepdims=keepdims, initial=-initial)
