"""How often rules of promotion accept planted pairs of models.

Two models are compared on a log of users with several rows each. The true
logit of a row is the sum of two signals of the same size, of which the old
model sees one and the new one the other, an effect of the user that neither
knows, and noise: the models differ, and neither is better. A lift gives the
new model a part of a third signal.

Beside the tasks, both models retrieve for a fifth as many queries, and the log
of a random policy has as many requests with four candidates each. A change of
their recall or value is planted likewise.

    python benchmarks/planted_promotions.py --rows 1000000 --draws 200
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.policy_checks import policy_checks
from recsys.measuring.promotion.retrieval_checks import QueryMetrics
from recsys.measuring.promotion.retrieval_checks import retrieval_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.task_checks import task_checks
from recsys.metrics.off_policy import LoggedChoices

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


_RECALL = 0.3  # Of the old model.
_REWARDS = np.array([0.1, 0.2, 0.3, 0.4])  # Of the candidates of a request.
_BEST = 0.6  # How often the old model shows the best one; else any.


def draw_retrieval(
    change: float, queries: int, generator: np.random.Generator
) -> Iterator[QueryMetrics]:
    """Draws what two models retrieve for the same queries of users.

    Args:
        change: Of the new model's recall, relative to the old one's.
        queries: How many.
        generator: Draws them.
    """
    users = np.arange(queries) // _ROWS_PER_USER
    user = generator.normal(size=users[-1] + 1)[users]
    query = generator.normal(size=queries)
    for recall in (_RECALL, _RECALL * (1 + change)):
        own = generator.normal(size=queries)
        shown = np.sqrt(0.2) * user + np.sqrt(0.5) * query + np.sqrt(0.3) * own
        hits = (shown > norm.isf(recall)).astype(np.float64)
        first = np.unique(users, return_index=True)[1]
        of_users = np.add.reduceat(hits, first) / np.diff(
            np.append(first, queries)
        )
        yield QueryMetrics(
            {"recall@10": hits},
            np.ones(queries),
            users,
            {"user_recall@10": of_users},
        )


def draw_choices(
    change: float, requests: int, generator: np.random.Generator
) -> list[LoggedChoices]:
    """Draws a log, in which each candidate had the same chance, and two models.

    Args:
        change: Of the value of the new model, relative to the old one's.
        requests: How many.
        generator: Draws them.
    """
    count = len(_REWARDS)
    shown = generator.integers(count, size=requests)
    rewards = np.full((requests, count), np.nan)
    rows = np.arange(requests)
    rewards[rows, shown] = generator.random(requests) < _REWARDS[shown]
    predicted = _REWARDS + generator.normal(scale=0.05, size=rewards.shape)
    mean, best = _REWARDS.mean(), _REWARDS.max()
    value = _BEST * best + (1 - _BEST) * mean
    found = []
    for wanted in (value, value * (1 + change)):
        finds = generator.random(requests) < (wanted - mean) / (best - mean)
        choice = np.where(
            finds, count - 1, generator.integers(count, size=requests)
        )
        found.append(
            LoggedChoices.of(
                np.repeat(rows, count),
                rewards.ravel(),
                np.full(rewards.size, 1 / count),
                np.eye(count)[choice].ravel(),
                predicted.ravel(),
                np.repeat(rows // _ROWS_PER_USER, count),
            )
        )
    return found


@dataclass(frozen=True)
class Beside:
    """What is compared beside the tasks: relative changes of the new model."""

    recall: float
    value: float

    def checks(
        self, rows: int, generator: np.random.Generator, rules: PromotionRules
    ) -> list[Check]:
        """Draws and checks both, on a fifth of the rows each."""
        old, new = draw_retrieval(self.recall, rows // 5, generator)
        before, after = draw_choices(self.value, rows // 5, generator)
        return [
            *retrieval_checks(old, new, rules),
            *policy_checks(before, after, rules),
        ]


def accepted(
    pairs: list[Planted],
    rows: int,
    draws: int,
    seed: int = 0,
    beside: Beside | None = None,
) -> float:
    """Returns the share of draws whose new model passes all checks.

    Args:
        pairs: A pair of models for each task.
        rows: Rows of a log, in which each task is drawn by itself.
        draws: How many logs.
        seed: Draws them.
        beside: What is checked beside the tasks. Nothing unless given.
    """
    generator = np.random.default_rng(seed)
    rules = PromotionRules()
    passed = 0
    for _ in range(draws):
        tasks = [pair.draw(rows, generator) for pair in pairs]
        checks = task_checks(tasks, rules)
        if beside is not None:
            checks += beside.checks(rows, generator, rules)
        passed += all(check.passed for check in checks)
    return passed / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--lifts", type=float, nargs="+", default=[0.02])
    parser.add_argument("--together", action="store_true")
    given = parser.parse_args()
    cases = _together if given.together else _tasks
    for name, pairs, beside in cases(given.lifts):
        share = accepted(pairs, given.rows, given.draws, beside=beside)
        print(f"{name}: {share:.1%} of {given.draws} accepted", flush=True)


_Case = tuple[str, list[Planted], Beside | None]


def _tasks(lifts: list[float]) -> Iterator[_Case]:
    """Tasks alone."""
    equal = Planted(0.0)
    yield "one task, equal", [equal], None
    yield "two tasks, equal", [equal, equal], None
    for lift in lifts:
        pair, worse = with_lift(lift), with_lift(-lift)
        yield f"one task, {lift:+.2%}", [pair], None
        yield f"two tasks, {lift:+.2%} and equal", [pair, equal], None
        name = f"two tasks, {lift:+.2%} and {-lift:+.2%}"
        yield name, [pair, worse], None


def _together(lifts: list[float]) -> Iterator[_Case]:
    """A task, a retrieval and a value; worse ones are so by the limit."""
    rules = PromotionRules()
    changes = {
        "as good": Beside(0.0, 0.0),
        "recall at the limit": Beside(-rules.most_retrieval_drop, 0.0),
        "value at the limit": Beside(0.0, -rules.most_value_drop),
        "better": Beside(0.05, 0.05),
    }
    for lift in lifts:
        pair = with_lift(lift)
        for name, beside in changes.items():
            yield f"task {lift:+.2%}, beside it {name}", [pair], beside
    equal = [Planted(0.0)]
    yield "task equal, beside it better", equal, changes["better"]


if __name__ == "__main__":
    main()
