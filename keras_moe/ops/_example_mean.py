from keras import ops

from keras_moe.types import Tensor


def example_mean(
    values: Tensor, mask: Tensor | None = None, trailing: int = 0
) -> Tensor:
    """The mean over the examples that a mask keeps; 0 where there are none.

    Args:
        values: Float tensor `(..., *rest)`, `rest` for each example.
        mask: Boolean tensor `(...)`, false where a position is padding.
            Defaults to `None`: every example counts.
        trailing: Integer, how many axes `rest` has. Defaults to 0.

    Returns:
        Tensor `rest`.

    Example:
        >>> mask = np.array([True, True, False])
        >>> float(example_mean(np.array([1.0, 3.0, 9.0]), mask))
        2.0
    """
    values = ops.convert_to_tensor(values)
    axes = tuple(range(len(values.shape) - trailing))
    if mask is None:
        shape = ops.shape(values)
        count = 1
        for axis in axes:
            count = count * shape[axis]
    else:
        mask = ops.cast(mask, "bool")
        count = ops.sum(ops.cast(mask, "int32"))
        for _ in range(trailing):
            mask = mask[..., None]
        values = ops.where(mask, values, 0)
    count = ops.cast(ops.maximum(count, 1), values.dtype)
    return ops.sum(values, axis=axes) / count
