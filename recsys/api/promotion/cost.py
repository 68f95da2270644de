from collections.abc import Iterator

import numpy as np

from recsys.data import Dataset
from recsys.exporting.served_scores import ServedScores
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.latency_check import latency_check
from recsys.measuring.promotion.rules import PromotionRules

_TIMED_ROWS = (1, 64)
_REPEATS = 40


def cost_checks(
    old: ServedScores,
    new: ServedScores,
    dataset: Dataset,
    split: str,
    rules: PromotionRules,
) -> Iterator[Check]:
    """Yields the checks of the latencies of 1 and of 64 rows, and of the size.

    Args:
        old: The model that is served, timed in turn with the new one.
        new: The new model.
        dataset: The data of the day.
        split: Name of its split.
        rules: What is allowed.
    """
    for count in _TIMED_ROWS:
        rows = dataset.split(split)[:count]
        inputs = [
            (model, model.raw(rows, dataset.schema.features))
            for model in (old, new)
        ]
        for model, raw in inputs:  # The first time takes longer.
            model.seconds(raw)
        seconds = np.array(
            [
                [model.seconds(raw) for model, raw in inputs]
                for _ in range(_REPEATS)
            ]
        )  # (repeats, models)
        yield latency_check(seconds, len(rows), rules)
    ratio, most = new.size / old.size, rules.most_size_ratio
    details = {"old": old.size, "new": new.size}
    yield Check("cost", "bytes", ratio <= most, ratio, most, None, details)
