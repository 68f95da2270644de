from typing import Any

from keras import ops

from keras_moe.ops.rows import take_rows
from keras_moe.ops.split_groups import split_groups
from keras_moe.ops.tracing import has_dynamic_shapes


def grouped_matmul(blocks: Any, kernels: Any, experts: Any) -> Any:
    """Multiplies each block by its expert's matrix.

    Where shapes may depend on values, all blocks of an expert are one matmul.
    Elsewhere, under XLA, every block is multiplied by a copy of its matrix.

    Args:
        blocks: Tensor `(C, B, D)`.
        kernels: Tensor `(E, D, H)`, one matrix an expert.
        experts: Int32 `(C,)`, the expert of each block, in ascending order.

    Returns:
        Tensor `(C, B, H)`.

    Example:
        >>> blocks = np.ones((2, 1, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = grouped_matmul(blocks, kernels, np.array([0, 1]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [2.0, 3.0]
    """
    blocks = ops.convert_to_tensor(blocks)
    # Not a variable any more, which TensorFlow's custom gradients refuse.
    kernels = ops.reshape(kernels, kernels.shape)
    experts = ops.convert_to_tensor(experts)
    if has_dynamic_shapes():
        return _by_groups(blocks, kernels, experts)
    return _by_copies(blocks, kernels, experts)


def _by_groups(blocks: Any, kernels: Any, experts: Any) -> Any:
    num_experts, inputs, units = kernels.shape
    products = [
        ops.matmul(ops.reshape(group, (-1, inputs)), kernel)
        for group, kernel in zip(
            split_groups(blocks, experts, num_experts),
            ops.unstack(kernels, num=num_experts),
            strict=True,
        )
    ]
    _, block_rows, _ = ops.shape(blocks)
    return ops.reshape(ops.concatenate(products), (-1, block_rows, units))


def _by_copies(blocks: Any, kernels: Any, experts: Any) -> Any:
    num_experts = kernels.shape[0]

    # Nothing but arguments: in a branch JAX loses what a closure holds.
    def product(blocks: Any, kernels: Any, experts: Any) -> tuple[Any, Any]:
        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            slope = args[0] if upstream is None else upstream
            of_copies = ops.matmul(ops.transpose(blocks, (0, 2, 1)), slope)
            copies = take_rows(kernels, experts)
            return (
                ops.matmul(slope, ops.transpose(copies, (0, 2, 1))),
                ops.segment_sum(of_copies, experts, num_segments=num_experts),
                None,  # Experts are integers.
            )

        copies = take_rows(kernels, experts)
        return ops.matmul(blocks, copies), gradient

    # The automatic gradient would keep the copies of the matrices that the
    # blocks are multiplied by, and on TensorFlow hand the optimizer a sparse
    # gradient, which it expands several times over.
    return ops.custom_gradient(product)(blocks, kernels, experts)
