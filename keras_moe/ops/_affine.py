from keras import ops

from keras_moe.types import Tensor


def affine(
    inputs: Tensor, kernel: Tensor, bias: Tensor | None = None
) -> Tensor:
    """The affine map `x·A + c`, with outputs of any shape.

    Args:
        inputs: Float tensor `(..., p)`.
        kernel: Tensor `(p, *outputs)`.
        bias: Tensor `outputs`, or `None` for none.

    Returns:
        Tensor `(..., *outputs)`.

    Example:
        >>> tuple(affine(np.ones((5, 3)), np.ones((3, 2, 4))).shape)
        (5, 2, 4)
    """
    outputs = ops.tensordot(inputs, kernel, axes=1)  # (..., *outputs)
    return outputs if bias is None else ops.add(outputs, bias)
