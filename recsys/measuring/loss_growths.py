"""By how much losses grow when the values of a feature are shuffled."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import TypeVar

import numpy as np

TOTAL = ""  # The weighted loss, beside those of tasks: no task is named so.

Losses = dict[str, float]
Rows = TypeVar("Rows")


def loss_growths(
    losses: Callable[[Rows], Losses],
    rows: Rows,
    features: Iterable[str],
    shuffled: Callable[[Rows, str, np.random.Generator], Rows],
    repeats: int,
    seed: int,
) -> dict[str, list[Losses]]:
    """Measures the increase of each loss in each shuffling of each feature.

    Args:
        losses: Losses by name of rows.
        rows: The rows.
        features: Names of the features.
        shuffled: Returns the rows with one feature in a random order.
        repeats: How often each feature is shuffled.
        seed: Seed of the orders.
    """
    before = losses(rows)
    generator = np.random.default_rng(seed)
    growths: dict[str, list[Losses]] = {}
    for name in features:
        for _ in range(repeats):
            after = losses(shuffled(rows, name, generator))
            growths.setdefault(name, []).append(
                {loss: after[loss] - before[loss] for loss in before}
            )
    return growths


def growth_by_feature(
    growths: Mapping[str, list[Losses]], loss: str
) -> dict[str, dict[str, float]]:
    """Returns mean and deviation of each feature, the largest mean first.

    Args:
        growths: What `loss_growths` returns.
        loss: Name of the loss.
    """
    values = {
        name: np.array([growth[loss] for growth in repeated])
        for name, repeated in growths.items()
    }
    return {
        name: {
            "mean": float(values[name].mean()),
            "deviation": float(values[name].std()),
        }
        for name in sorted(values, key=lambda name: -values[name].mean())
    }
