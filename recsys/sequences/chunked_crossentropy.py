from collections.abc import Callable

from keras import ops

from keras_moe.types import Tensor

CHUNK = 256  # Rows whose logits are there at a time: they stay in the cache.


def chunked_crossentropy(
    queries: Tensor,
    items: Tensor,
    targets: Tensor,
    weights: Tensor,
    chunk: int = CHUNK,
    dtype: str = "float32",
) -> Tensor:
    """Returns the mean softmax loss of rows over a whole catalogue.

        loss_r = log(sum_j exp(<q_r, v_j>)) - <q_r, v_t(r)>

    The logits of all rows are never there at once, and are computed once: the
    gradient of a few rows is taken while their logits are there. Where the
    number of rows is not known before, all of them are one chunk.

    Args:
        queries: Tensor `(R, D)`, the vectors q.
        items: Tensor `(V, D)`, the vectors v.
        targets: Integer tensor `(R,)`, the row t of `items` that is right.
        weights: Tensor `(R,)`, how much each row counts; 0 for padding.
        chunk: Most rows at a time. Defaults to 256.
        dtype: What products of `queries` and `items`, and those of their
            gradients, take and give, such as `"bfloat16"`; all sums are
            float32. Defaults to `"float32"`.

    Returns:
        Float32 scalar, sum_r w_r loss_r / sum_r w_r, 0 where nothing counts.

    Example:
    >>> same = ops.ones((4, 2))
    >>> loss = chunked_crossentropy(same[:3], same, [0, 1, 2], ops.ones(3))
    >>> round(float(loss), 4)  # log 4
    1.3863

    References:
        Wijmans et al. Cut Your Losses in Large-Vocabulary Language Models.
        ICLR 2025, section 4.
    """
    targets = ops.convert_to_tensor(targets)
    weights = ops.cast(weights, "float32")
    total = ops.sum(weights)
    weights = weights / ops.where(total > 0, total, 1.0)
    num_rows = queries.shape[0]
    known = isinstance(num_rows, int)  # Not within a model of any batch size.
    starts = range(0, num_rows, chunk) if known else [0]

    def losses(
        queries: Tensor, items: Tensor
    ) -> tuple[Tensor, Callable[..., tuple[Tensor, Tensor]]]:
        loss = ops.zeros((), "float32")
        of_queries, of_items = [], ops.zeros_like(items)
        low_queries, low_items = (
            ops.cast(queries, dtype),
            ops.cast(items, dtype),
        )
        for start in starts:
            rows = slice(start, start + chunk if known else None)
            part, counts = low_queries[rows], weights[rows, None]
            logits = ops.matmul(part, ops.transpose(low_items))  # (R, V)
            logits = ops.cast(logits, "float32")
            target_logits = ops.take_along_axis(
                logits, targets[rows, None], axis=1
            )
            top = ops.max(logits, axis=1, keepdims=True)
            exps = ops.exp(logits - top)
            sums = ops.sum(exps, axis=1, keepdims=True)
            loss = loss + ops.sum(
                counts * (ops.log(sums) + top - target_logits)
            )
            # The softmax is exps / sums: (R, D) is divided, not (R, V).
            exps, shares = ops.cast(exps, dtype), counts / sums
            of_part = ops.cast(ops.matmul(exps, low_items), "float32")
            of_queries.append(shares * of_part)
            part = ops.cast(shares * queries[rows], dtype)
            of_chunk = ops.matmul(ops.transpose(exps), part)
            of_items = of_items + ops.cast(of_chunk, "float32")
        right = ops.take(items, targets, axis=0)
        toward = weights[:, None] * right
        of_queries = ops.concatenate(of_queries) - toward
        of_items = of_items - ops.segment_sum(
            weights[:, None] * queries, targets, ops.shape(items)[0]
        )

        def gradient(
            *args: Tensor, upstream: Tensor | None = None
        ) -> tuple[Tensor, Tensor]:
            factor = args[0] if upstream is None else upstream
            return factor * of_queries, factor * of_items

        return loss, gradient

    return ops.custom_gradient(losses)(
        ops.cast(queries, "float32"), ops.cast(items, "float32")
    )
