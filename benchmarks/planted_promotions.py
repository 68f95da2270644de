"""How often rules of promotion accept planted pairs of models.

Two models are compared on a log of users with several rows each. The true
logit of a row is the sum of two signals of the same size, of which the old
model sees one and the new one the other, an effect of the user that neither
knows, and noise: the models differ, and neither is better. A lift gives the
new model a part of a third signal.

    python benchmarks/planted_promotions.py --rows 1000000 --draws 200
"""

import argparse
from dataclasses import dataclass

import numpy as np

from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.task_checks import task_checks

_ROWS_PER_USER = 10
_MEAN_LOGIT = -2.0


@dataclass(frozen=True)
class Planted:
    """A pair of models.

    Attributes:
        share: Share of the third signal's variance that the new model sees;
            if negative, the old model sees `-share` instead.
    """

    share: float

    def draw(self, rows: int, generator: np.random.Generator) -> ScoredTask:
        """Draws a log and what both models say about it."""
        users = np.arange(rows) // _ROWS_PER_USER
        seen_by_old, seen_by_new = generator.normal(size=(2, rows))
        gain = abs(self.share)
        known = generator.normal(scale=np.sqrt(gain), size=rows)
        unknown = generator.normal(scale=np.sqrt(1 - gain), size=rows)
        user = generator.normal(scale=0.5, size=users[-1] + 1)[users]
        logits = _MEAN_LOGIT + seen_by_old + seen_by_new + known + unknown
        labels = generator.random(rows) < _sigmoid(logits + user)
        hidden = 1 + 1 + 0.25  # Of the other two signals and of the user.
        old, new = _predicted(seen_by_old, hidden), None
        if self.share >= 0:
            new = _predicted(seen_by_new + known, hidden - gain)
        else:
            old = _predicted(seen_by_old + known, hidden - gain)
            new = _predicted(seen_by_new, hidden)
        return ScoredTask(
            "watch",
            "binary",
            labels.astype(np.float64),
            old,
            new,
            np.ones(rows),
            users,
        )


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def _predicted(known: np.ndarray, variance: float) -> np.ndarray:
    """The mean of `sigmoid(known + hidden)`, by the probit approximation."""
    logits = _MEAN_LOGIT + known
    return _sigmoid(logits / np.sqrt(1 + np.pi * variance / 8))


def with_lift(lift: float) -> Planted:
    """Returns the pair whose new model has a loss lower by a share of it."""
    sign = 1 if lift >= 0 else -1
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        task = Planted(middle).draw(400_000, np.random.default_rng(0))
        old, new = (task.losses(each).mean() for each in (task.old, task.new))
        if 1 - new / old < abs(lift):
            low = middle
        else:
            high = middle
    return Planted(sign * low)


def accepted(
    pairs: list[Planted], rows: int, draws: int, seed: int = 0
) -> float:
    """Returns the share of draws whose new model passes all task checks.

    Args:
        pairs: A pair of models for each task.
        rows: Rows of a log, in which each task is drawn by itself.
        draws: How many logs.
        seed: Draws them.
    """
    generator = np.random.default_rng(seed)
    rules = PromotionRules()
    passed = 0
    for _ in range(draws):
        tasks = [pair.draw(rows, generator) for pair in pairs]
        passed += all(check.passed for check in task_checks(tasks, rules))
    return passed / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--lifts", type=float, nargs="+", default=[0.02])
    given = parser.parse_args()
    equal = Planted(0.0)
    cases = {"one task, equal": [equal], "two tasks, equal": [equal, equal]}
    for lift in given.lifts:
        pair = with_lift(lift)
        cases[f"one task, {lift:+.2%}"] = [pair]
        cases[f"two tasks, {lift:+.2%} and equal"] = [pair, equal]
        worse = with_lift(-lift)
        cases[f"two tasks, {lift:+.2%} and {-lift:+.2%}"] = [pair, worse]
    for name, pairs in cases.items():
        share = accepted(pairs, given.rows, given.draws)
        print(f"{name}: {share:.1%} of {given.draws} accepted", flush=True)


if __name__ == "__main__":
    main()
