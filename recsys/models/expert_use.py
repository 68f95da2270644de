"""The use of experts: returned by a compiled pass, then summed up.

The experts of each row leave the graph as bits, a byte for eight of them, and
sums of a batch as one row, so that what is kept of a split hardly grows with
the number of experts.
"""

from typing import Any

import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.metrics import ExpertUse


def batch_use(weights: Any, counts: Tensor) -> dict[str, Tensor]:
    """Returns the use of experts in a batch, as tensors.

    Args:
        weights: Weights that are not negative, float32 `(N, n)`.
        counts: 1 for each row that counts in the sums, 0 for the others,
            float32 `(N,)`.

    Returns:
        "sets", uint8 `(N, ceil(n / 8))`; "weights" `(1, n)` and "entropy"
        `(1,)`, sums over the rows. As in `ExpertUse`.
    """
    sums = ops.sum(weights, axis=-1, keepdims=True)  # (N, 1)
    shares = weights / ops.where(sums > 0, sums, 1.0)
    # 0 log 0 = 0; a NaN stays one.
    logs = ops.log2(ops.where(shares == 0, 1.0, shares))
    entropies = -ops.sum(shares * logs, axis=-1)  # (N,)
    return {
        "sets": _as_bits(weights != 0),
        "weights": ops.sum(counts[:, None] * shares, axis=0, keepdims=True),
        "entropy": ops.sum(counts * entropies, axis=0, keepdims=True),
    }


def whole_use(batches: dict[str, np.ndarray], rows: int) -> ExpertUse:
    """Returns the use of experts in a split.

    Args:
        batches: What `batch_use` returned, one batch below the other.
        rows: How many rows the split has; the rest fills the last batch.
    """
    return ExpertUse(
        np.asarray(batches["sets"])[:rows],
        np.asarray(batches["weights"], np.float64).sum(axis=0),
        float(np.asarray(batches["entropy"], np.float64).sum()),
    )


def _as_bits(selected: Tensor) -> Tensor:
    """Packs a boolean tensor `(N, n)` into uint8 `(N, ceil(n / 8))`."""
    num_experts = selected.shape[-1]
    num_bytes = -(-num_experts // 8)
    padding = 8 * num_bytes - num_experts
    bits = ops.pad(ops.cast(selected, "int32"), [[0, 0], [0, padding]])
    bits = ops.reshape(bits, (-1, num_bytes, 8))  # (N, bytes, bits)
    values = ops.convert_to_tensor([1 << bit for bit in range(8)], "int32")
    return ops.cast(ops.sum(bits * values, axis=-1), "uint8")
