from typing import Any

from keras import ops


def grouped_matmul(blocks: Any, kernels: Any, experts: Any) -> Any:
    """Multiplies each block by its expert's matrix.

    Args:
        blocks: Tensor `(C, B, D)`.
        kernels: Tensor `(E, D, H)`, one matrix an expert.
        experts: Int32 `(C,)`, the expert of each block.

    Returns:
        Tensor `(C, B, H)`.

    Example:
        >>> blocks = np.ones((2, 1, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = grouped_matmul(blocks, kernels, np.array([1, 0]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [3.0, 2.0]
    """
    return ops.matmul(blocks, ops.take(kernels, experts, axis=0))
