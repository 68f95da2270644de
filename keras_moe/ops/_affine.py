from typing import Any

from keras import ops


def affine(inputs: Any, kernel: Any, bias: Any = None) -> Any:
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
    outputs = ops.tensordot(inputs, kernel, axes=1)
    return outputs if bias is None else ops.add(outputs, bias)
