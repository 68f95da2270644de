from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys.metrics import ExpertUse
from recsys.models.expert_use import batch_use
from recsys.models.expert_use import whole_use

pytestmark = pytest.mark.traced_once("tensorflow")


def used(batches: list[Any], rows: int) -> ExpertUse:
    """Runs batches as `predict` does; the rows beyond the split do not count.

    Each batch has the rows of the first one.
    """
    outputs = []
    for start, weights in enumerate(batches):
        counts = np.arange(len(weights)) + start * len(weights) < rows
        use = batch_use(
            ops.convert_to_tensor(weights.astype("float32")),
            ops.convert_to_tensor(counts.astype("float32")),
        )
        outputs.append({k: ops.convert_to_numpy(use[k]) for k in use})
    whole = {k: np.concatenate([o[k] for o in outputs]) for k in outputs[0]}
    return whole_use(whole, rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("num_experts", [2, 8, 9, 100])
def test_batches_against_numpy(num_experts: int) -> None:
    rng = np.random.default_rng(num_experts)
    weights = rng.uniform(size=(24, num_experts))
    weights[rng.uniform(size=weights.shape) < 0.6] = 0.0
    weights[5] = 0.0
    use = used([weights[:8], weights[8:16], weights[16:]], rows=21)
    there = weights[:21]
    np.testing.assert_array_equal(
        use.sets, np.packbits(there > 0, axis=1, bitorder="little")
    )
    assert use.experts_per_row == (there > 0).sum(axis=1).mean()
    assert use.dead.tolist() == [not column.any() for column in there.T]
    shares = there[there.any(axis=1)]
    shares = shares / shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(use.weights, shares.sum(axis=0), rtol=1e-6)
    mean = shares.mean(axis=0)
    expected = _entropy(mean) - np.mean([_entropy(row) for row in shares])
    assert use.mutual_information == pytest.approx(expected, abs=1e-6)


def test_a_row_of_nan_leaves_the_information_unknown() -> None:
    weights = np.array([[0.5, 0.5], [np.nan, np.nan]])
    use = used([weights], rows=2)
    assert use.mutual_information is None
    assert use.most_frequent_set == 1.0


def _entropy(shares: Any) -> float:
    there = shares[shares > 0]
    return float(-(there * np.log2(there)).sum())
