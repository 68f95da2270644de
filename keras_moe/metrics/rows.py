from keras import ops

from keras_moe.types import Tensor
from keras_moe.types import TensorLike


def as_rows(
    weights: TensorLike,
    sample_weight: TensorLike | None = None,
    dtype: str = "float32",
) -> tuple[Tensor, Tensor]:
    """Flattens weights to one row per example, and says what each row counts.

    Args:
        weights: Tensor `(..., n)`; a static gate's `(n,)` is one row.
        sample_weight: Tensor `(...)`, what each row counts, such as a 0/1
            mask of padded positions. Defaults to `None`: every row counts 1.
        dtype: Float type of the results, defaults to `"float32"`.

    Returns:
        Rows `(N, n)`, zeros where a row counts nothing, whatever stood
        there; and what each row counts, `(N,)`.

    Raises:
        ValueError: If `sample_weight` has not one axis less than `weights`.
    """
    values = ops.cast(ops.convert_to_tensor(weights), dtype)
    shape = ops.shape(values)
    if sample_weight is None:
        counts = ops.ones(shape[:-1], dtype)
    else:
        counts = ops.cast(ops.convert_to_tensor(sample_weight), dtype)
        if len(counts.shape) != len(shape) - 1:
            raise ValueError(
                "`sample_weight` must have the shape of `weights` without "
                "the last axis. Received: "
                f"sample_weight.shape={tuple(counts.shape)}, "
                f"weights.shape={tuple(values.shape)}"
            )
        counts = ops.broadcast_to(counts, shape[:-1])
    counts = ops.reshape(counts, (-1,))  # (N,)
    rows = ops.reshape(values, (-1, shape[-1]))  # (N, n)
    return ops.where(counts[:, None] > 0, rows, 0.0), counts
