"""Vectors whose products are scores with the popularity of items in them."""

from keras import ops

from keras_moe.types import Tensor


def with_one(queries: Tensor) -> Tensor:
    """Returns the vectors of queries with a 1 behind them, `(B, D + 1)`.

    Args:
        queries: Float tensor `(B, D)`.
    """
    return ops.concatenate([queries, ops.ones_like(queries[:, :1])], axis=-1)


def with_log_share(items: Tensor, numbers: Tensor, sampling: Tensor) -> Tensor:
    """Returns the vectors of items with log q behind them, `(B, D + 1)`.

    The product with what `with_one` returns is <u, v> + log q. An item that
    has no row, as in a model that goes on from another, counts as the rarest.

    Args:
        items: Float tensor `(B, D)`.
        numbers: Integer tensor `(B,)`, which items these are.
        sampling: Float tensor `(N + 1,)`, the share q of rows with each item,
            after that of unknown ones.

    Example:
    >>> sampling = ops.array([0.0, 1.0, 0.0])
    >>> vectors = with_log_share(ops.ones((2, 1)), ops.array([1, 2]), sampling)
    >>> ops.convert_to_numpy(vectors).tolist()
    [[1.0, 0.0], [1.0, 0.0]]

    References:
        Menon et al. Long-Tail Learning via Logit Adjustment. ICLR 2021,
        section 4.
    """
    logs = log_shares(numbers, sampling)
    return ops.concatenate([items, logs[:, None]], axis=-1)


def log_shares(numbers: Tensor, sampling: Tensor) -> Tensor:
    """Returns log q of items, `(B,)`; the rarest's for those without a row.

    Args:
        numbers: Integer tensor `(B,)`, which items these are.
        sampling: Float tensor `(N + 1,)`, as of `with_log_share`.
    """
    known = sampling[1:]
    least = ops.min(ops.where(known > 0, known, 1.0))
    shares = ops.take(sampling, numbers, axis=0)
    return ops.log(ops.maximum(shares, least))
