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
    num_experts = kernels.shape[0]

    # Nothing but arguments: in a branch JAX loses what a closure holds.
    def product(blocks: Any, kernels: Any, experts: Any) -> tuple[Any, Any]:
        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            slope = args[0] if upstream is None else upstream
            of_copies = ops.matmul(ops.transpose(blocks, (0, 2, 1)), slope)
            copies = ops.take(kernels, experts, axis=0)
            return (
                ops.matmul(slope, ops.transpose(copies, (0, 2, 1))),
                ops.segment_sum(of_copies, experts, num_segments=num_experts),
                None,  # Experts are integers.
            )

        copies = ops.take(kernels, experts, axis=0)
        return ops.matmul(blocks, copies), gradient

    # The automatic gradient would keep the copies of the matrices that the
    # blocks are multiplied by, and on TensorFlow hand the optimizer a sparse
    # gradient, which it expands several times over.
    return ops.custom_gradient(product)(
        ops.convert_to_tensor(blocks),
        # Not a variable any more, which TensorFlow's custom gradients refuse.
        ops.reshape(kernels, kernels.shape),
        ops.convert_to_tensor(experts),
    )
