from typing import Any

from keras import ops

from keras_moe.ops.split_groups import split_groups
from keras_moe.ops.tracing import has_dynamic_shapes


def grouped_matmul(blocks: Any, kernels: Any, experts: Any) -> Any:
    """Multiplies each block by its expert's matrix.

    Where shapes may depend on values, all blocks of an expert are one matmul.
    Elsewhere, under XLA, a loop goes from block to block. Blocks that belong
    to no expert cost nothing.

    Args:
        blocks: Tensor `(C, B, D)`.
        kernels: Tensor `(E, D, H)`, one matrix an expert.
        experts: Int32 `(C,)`, the expert of each block, in ascending order;
            `E` for the blocks of none.

    Returns:
        Tensor `(C, B, H)`, zero for the blocks of no expert.

    Example:
        >>> blocks = np.ones((3, 1, 1), "float32")
        >>> kernels = np.array([[[2.0]], [[3.0]]], "float32")
        >>> product = grouped_matmul(blocks, kernels, np.array([0, 1, 2]))
        >>> keras.ops.convert_to_numpy(product).ravel().tolist()
        [2.0, 3.0, 0.0]
    """
    blocks = ops.convert_to_tensor(blocks)
    # Not a variable any more, which TensorFlow's custom gradients refuse.
    kernels = ops.reshape(kernels, kernels.shape)
    experts = ops.convert_to_tensor(experts)
    if has_dynamic_shapes():
        return _by_groups(blocks, kernels, experts)
    return _by_blocks(blocks, kernels, experts)


def _by_groups(blocks: Any, kernels: Any, experts: Any) -> Any:
    num_experts, inputs, units = kernels.shape
    *groups, rest = split_groups(blocks, experts, num_experts)
    products = [
        ops.matmul(ops.reshape(group, (-1, inputs)), kernel)
        for group, kernel in zip(
            groups, ops.unstack(kernels, num=num_experts), strict=True
        )
    ]
    num_blocks, block_rows, _ = ops.shape(rest)
    products.append(
        ops.zeros((num_blocks * block_rows, units), products[0].dtype)
    )
    return ops.reshape(ops.concatenate(products), (-1, block_rows, units))


def _by_blocks(blocks: Any, kernels: Any, experts: Any) -> Any:
    # Nothing but arguments: in a branch JAX loses what a closure holds.
    def product(blocks: Any, kernels: Any, experts: Any) -> tuple[Any, Any]:
        def gradient(*args: Any, upstream: Any = None) -> tuple[Any, ...]:
            slope = args[0] if upstream is None else upstream
            of_blocks, of_kernels = _slopes(blocks, kernels, experts, slope)
            return of_blocks, of_kernels, None  # Experts are integers.

        return _products(blocks, kernels, experts), gradient

    # A loop of unknown length has no gradient of its own, and one that had
    # would keep a copy of a matrix for every block.
    return ops.custom_gradient(product)(blocks, kernels, experts)


def _products(blocks: Any, kernels: Any, experts: Any) -> Any:
    def step(block: Any, products: Any) -> Any:
        matrix = _at(kernels, experts[block])
        product = ops.matmul(_at(blocks, block), matrix)
        return _put(products, block, product)

    num_blocks, block_rows, _ = ops.shape(blocks)
    shape = (num_blocks, block_rows, kernels.shape[2])
    products = ops.zeros(shape, blocks.dtype)
    return _for_used_blocks(experts, kernels, step, products)


def _slopes(blocks: Any, kernels: Any, experts: Any, slope: Any) -> Any:
    def step(block: Any, slopes: Any) -> Any:
        of_blocks, of_kernels = slopes
        expert = experts[block]
        above = _at(slope, block)
        of_block = ops.matmul(above, ops.transpose(_at(kernels, expert)))
        of_kernel = ops.matmul(ops.transpose(_at(blocks, block)), above)
        of_kernel = _at(of_kernels, expert) + of_kernel
        return (
            _put(of_blocks, block, of_block),
            _put(of_kernels, expert, of_kernel),
        )

    zeros = (ops.zeros_like(blocks), ops.zeros_like(kernels))
    return _for_used_blocks(experts, kernels, step, zeros)


def _for_used_blocks(experts: Any, kernels: Any, step: Any, start: Any) -> Any:
    used = ops.sum(ops.cast(experts < kernels.shape[0], "int32"))
    return ops.fori_loop(0, used, step, start)


def _at(tensor: Any, index: Any) -> Any:
    """`tensor[index]`, a matrix."""
    _, rows, columns = ops.shape(tensor)
    part = ops.slice(tensor, (index, 0, 0), (1, rows, columns))
    return ops.reshape(part, (rows, columns))


def _put(tensor: Any, index: Any, matrix: Any) -> Any:
    return ops.slice_update(tensor, (index, 0, 0), matrix[None])
