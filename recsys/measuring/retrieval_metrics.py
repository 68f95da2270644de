from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recsys.files.json_files import JsonObject
from recsys.metrics import LIST_METRICS
from recsys.metrics import RETRIEVAL_METRICS
from recsys.metrics.ranks import Ranks
from recsys.metrics.ranks import without
from recsys.metrics.recommended_lists import RecommendedLists
from recsys.metrics.recommended_lists import best_items
from recsys.retrieval.user_targets import UserTargets

# The ranking beside a model's: items by their number of counted rows.
POPULAR = "popular"
_SCORES = 1 << 24  # At a time: 64 MiB of them.
_ROWS = 4096  # Most rows at a time.


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Rows of a split, each a query, B of them.

    Attributes:
        start: How many rows of the split are before them.
        items: The item of each row, integers `(B,)`; 0 for one that is not in
            the catalogue.
        weights: How much each row counts, `(B,)`.
        excluded: Rows, counted from the first of these, and items that are no
            candidates; `None` for none.
    """

    start: int
    items: np.ndarray
    weights: np.ndarray
    excluded: tuple[np.ndarray, np.ndarray] | None = None


def rows_at_once(num_items: int) -> int:
    """Returns how many rows are scored at a time.

    Args:
        num_items: How many items each row is scored against.
    """
    return max(1, min(_ROWS, _SCORES // max(1, num_items)))


class RetrievalMetrics:
    """The metrics of one ranking of a catalogue, by row and by user.

    They are `recsys.metrics.RETRIEVAL_METRICS`. By row, each row that counts is
    a query, and its item the only right answer. By user, the different items
    of a user's rows are the right answers of one query, that of the first of
    these rows in time:

        user_recall@k = hits / targets
        user_ndcg@k   = DCG@k / ideal DCG@k of min(targets, k) hits

    the mean over users with a target, each of whom counts once. An item that
    is not in the catalogue is a target that is not found. What is excluded is
    no candidate, unless it is the item of the row, or a target of the user.
    Ties count their expected value: a constant score comes out as chance.

    Args:
        k: How many items are retrieved.
        targets: The targets of users; `None` where rows have no user.
        keep_targets: Whether a target that is excluded is a candidate all the
            same; otherwise it is not found. Defaults to `True`.
    """

    def __init__(
        self, k: int, targets: UserTargets | None, keep_targets: bool = True
    ) -> None:
        self.targets = targets
        self.keep_targets = keep_targets
        self._metrics = {
            f"{name}@{k}": metric(k)
            for name, metric in RETRIEVAL_METRICS.items()
        }
        self._sums = np.zeros(len(self._metrics))
        self._total = 0.0
        users = 0 if targets is None else len(targets.rows)
        self._users = np.zeros((len(self._metrics), users))

    def add(self, rows: QueryRows, scores: np.ndarray) -> np.ndarray:
        """Adds the next rows of the split.

        Args:
            rows: The rows.
            scores: Array `(B, N)` of what items are ranked by; it is changed.

        Returns:
            The metrics of each row alone, `(metrics, B)`.
        """
        if self.targets is not None:
            self._add_users(self.targets, rows, scores)
        ranks = Ranks.of(scores, rows.items, rows.excluded, self.keep_targets)
        counts = np.asarray(rows.weights, np.float64)
        gains = np.stack([*self._gains(ranks)])
        self._sums += gains @ counts
        self._total += counts.sum()
        return gains / self._most_of_rows()[:, None]

    def _gains(self, ranks: Ranks) -> Iterator[npt.NDArray[np.float64]]:
        """Gains of the rows by metric, each float64 `(rows,)`."""
        for metric in self._metrics.values():
            yield ranks.mean_gains(metric.gains)

    def _add_users(
        self, targets: UserTargets, rows: QueryRows, scores: np.ndarray
    ) -> None:
        users = targets.within(rows.start, rows.start + len(rows.items))
        user_scores = scores[targets.rows[users] - rows.start]  # (users, N)
        whose, items = targets.pairs(users)
        if rows.excluded is not None:
            place = np.full(len(rows.items), -1)
            place[targets.rows[users] - rows.start] = np.arange(len(users))
            of_user = place[rows.excluded[0]]
            there = of_user >= 0
            seen = of_user[there], rows.excluded[1][there]
            if not self.keep_targets:
                items = without(items, whose, seen)
            known = whose[items > 0], items[items > 0] - 1
            kept = user_scores[known]
            user_scores[seen[0], seen[1] - 1] = -np.inf
            user_scores[known] = kept
        ranks = Ranks.within(user_scores, whose, items)
        for sums, gains in zip(self._users, self._gains(ranks), strict=True):
            np.add.at(sums, users[whose], gains)

    def result(self) -> dict[str, float | None]:
        """Returns the metrics by name, `None` where no row counts."""
        values: dict[str, float | None] = dict.fromkeys(self._metrics)
        for name, total, most in zip(
            self._metrics, self._sums, self._most_of_rows(), strict=True
        ):
            if self._total:
                values[name] = float(total / self._total / most)
        for name, of_users in self.of_users().items():
            values[name] = float(of_users.mean()) if len(of_users) else None
        return values

    def of_users(self) -> dict[str, np.ndarray]:
        """Returns the metrics of each user by name, arrays `(users,)`."""
        if self.targets is None:
            return {}
        counts = self.targets.counts
        return {
            f"user_{name}": sums / metric.most(counts)
            for (name, metric), sums in zip(
                self._metrics.items(), self._users, strict=True
            )
        }

    def _most_of_rows(self) -> np.ndarray:
        """What a row gains at most, by metric."""
        alone = np.ones(1, np.int64)
        return np.array([m.most(alone)[0] for m in self._metrics.values()])

    @property
    def names(self) -> list[str]:
        """Names of the metrics by row."""
        return [*self._metrics]


Scored = tuple[QueryRows, Mapping[str, np.ndarray]]


def retrieval_metrics(
    blocks: Iterable[Scored],
    k: int,
    targets: UserTargets | None,
    num_items: int,
    beside: Sequence[str] = (POPULAR,),
    keep_targets: bool = True,
) -> JsonObject:
    """Returns the metrics of a model, and of what stands beside it.

    Args:
        blocks: The rows of a split block by block, with scores `(B, N)` by
            the name of a ranking: the model's is the empty text.
        k: How many items are retrieved.
        targets: The targets of users; `None` where rows have no user.
        num_items: How many items there are.
        beside: The names of the other rankings.
        keep_targets: As for `RetrievalMetrics`.

    Returns:
        What `RetrievalMetrics` says of the model, by the name of each other
        ranking what it says of that, the number of `"rows"` that count, of
        `"items"`, and where rows have users of `"users"`.
    """
    measures = {
        name: RetrievalMetrics(k, targets, keep_targets)
        for name in ("", *beside)
    }
    count = 0
    for rows, scores in blocks:
        for name, measure in measures.items():
            measure.add(rows, scores[name])
        count += len(rows.items)
    metrics: JsonObject = dict(measures[""].result())
    metrics |= {"rows": count, "items": num_items}
    if targets is not None:
        metrics["users"] = len(targets.rows)
    return metrics | {name: measures[name].result() for name in beside}


class ListCollector:
    """The lists that a model retrieves for the rows of a split.

    What is excluded for a row is in none of its lists, its own item included.

    Args:
        k: How many items a list has.
    """

    def __init__(self, k: int) -> None:
        self.k = k
        self._items: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []

    def collecting(self, blocks: Iterator[Scored]) -> Iterator[Scored]:
        """Passes blocks of scores on, and keeps the lists of the model.

        Args:
            blocks: As `retrieval_metrics` takes them.
        """
        for rows, scores in blocks:
            self._items.append(best_items(scores[""], self.k, rows.excluded))
            self._weights.append(np.asarray(rows.weights, np.float64))
            yield rows, scores

    def measure(
        self, counts: np.ndarray, vectors: np.ndarray
    ) -> dict[str, float | None]:
        """Returns `LIST_METRICS` of the lists, by "<name>@<k>".

        Args:
            counts: What each item counts in the training split, `(N,)`.
            vectors: A vector for each item, `(N, D)`.
        """
        width = min(self.k, len(counts))
        nothing = np.zeros((0, width), np.int64)
        lists = RecommendedLists(
            np.concatenate([nothing, *self._items]),
            np.concatenate([np.zeros(0), *self._weights]),
            np.asarray(counts, np.float64),
            vectors,
        )
        return {
            f"{name}@{self.k}": metric(lists)
            for name, metric in LIST_METRICS.items()
        }
