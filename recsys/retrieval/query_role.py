"""Whether a feature that is not of the item tells which item a row has."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from recsys.data.schema import Schema
from recsys.data.streaming.frames import column_parts
from recsys.data.streaming.frames import frames_of
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.times import parse_times
from recsys.features.feature import FittedFeature
from recsys.retrieval.feature_roles import FeatureRole


@dataclass(frozen=True)
class EncodedColumns:
    """The columns of a training split, as a model takes them.

    Attributes:
        train: The split, in memory or read part by part.
        features: The features, fitted.
    """

    train: SplitStream | pd.DataFrame
    features: Mapping[str, FittedFeature]

    def parts(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yields the same rows of several features, part by part.

        Args:
            *names: The features.
        """
        for frame in frames_of(self.train, names):
            yield tuple(
                self.features[name].encode(frame[name]) for name in names
            )


MOST_ROWS = 1 << 20  # As many are looked at to see whether a feature follows.
Rows = tuple[np.ndarray, np.ndarray | None, np.ndarray]

# Of the distance of other rows, what that of an item's rows is at most.
_CLOSE = 0.5
# From fewer pairs nothing is concluded.
_FEWEST_PAIRS = 30


def query_role(
    feature: str, reason: str, columns: EncodedColumns, schema: Schema
) -> FeatureRole:
    """Returns the role of a feature that is not of the item.

    Args:
        feature: Name of the feature.
        reason: Why it is not, but for the user's.
        columns: The training split.
        schema: What its columns mean.
    """
    if feature == schema.user_id:
        return FeatureRole("query", "whom items are recommended to")
    follows = follows_item(_first_rows(feature, columns, schema))
    return FeatureRole("query", reason, follows)


def _first_rows(
    feature: str, columns: EncodedColumns, schema: Schema
) -> Iterator[Rows]:
    """The first rows, in the order of their times where those are known."""
    item, user = schema.item_id, schema.user_id
    assert item is not None, "checked before"
    names = [item, feature, *([] if user is None else [user])]
    times: Iterator[pd.Series] | None = None
    if schema.time is not None:
        times = iter(column_parts(columns.train, schema.time))
    left = MOST_ROWS
    for part in columns.parts(*names):
        rows: slice | np.ndarray = slice(left)
        if times is not None:
            moments = parse_times(next(times)[rows], "the training split")
            rows = np.argsort(moments.to_numpy(), kind="stable")
        items, values, *users = (column[rows] for column in part)
        yield items, users[0] if users else None, values
        left -= len(items)
        if left <= 0:
            return


def follows_item(parts: Iterable[Rows]) -> bool:
    """Tells whether a feature that varies is one of the item all the same.

    The mean rating of a film so far differs from row to row, and yet says
    which film it is. From one row of an item to its next one, such a feature
    changes by less than half of what it does between rows taken by chance,
    between neighbours with different items, which what drifts for all items
    alike does not, and from one row of a user to the next one, which the
    user's own features do not.

    Args:
        parts: Of some rows, in their order: the items and the users, integer
            arrays `(rows,)` with 0 for unknown ones, `None` for no users, and
            the feature as a model takes it, `(rows, ...)`.
    """
    of_item, references = _Mean(), {"chance": _Mean(), "next": _Mean()}
    of_user = _Mean()
    generator = np.random.default_rng(0)
    for items, users, values in parts:
        of_item.add(_of_same(values, items))
        if users is not None:
            of_user.add(_of_same(values, users))
        by_chance = values[generator.permutation(len(values))]
        references["chance"].add(_distances(values, by_chance))
        differ = items[1:] != items[:-1]
        references["next"].add(_distances(values[1:], values[:-1])[differ])
    if of_user.count >= _FEWEST_PAIRS:
        references["user"] = of_user
    enough = min(of_item.count, references["next"].count) >= _FEWEST_PAIRS
    return enough and all(
        of_item.value < _CLOSE * reference.value
        for reference in references.values()
    )


class _Mean:
    """The mean of distances, of pairs of which both have a value."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, distances: np.ndarray) -> None:
        known = distances[~np.isnan(distances)]
        self.total += float(known.sum())
        self.count += len(known)

    @property
    def value(self) -> float:
        return self.total / max(1, self.count)


def _of_same(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The distances from each row to the next one with the same id."""
    order = np.argsort(ids, kind="stable")
    order = order[np.count_nonzero(ids == 0) :]  # Without unknown ones.
    same = ids[order[1:]] == ids[order[:-1]]
    return _distances(values[order[1:]], values[order[:-1]])[same]


def _distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Distances of values by row; of other than floats, 1 where they differ."""
    rows = len(first), -1
    if not rows[0]:
        return np.zeros(0)
    if first.dtype.kind != "f":
        return (first != second).reshape(rows).any(axis=1).astype(np.float64)
    apart = np.abs(first.astype(np.float64) - second.astype(np.float64))
    return apart.reshape(rows).mean(axis=1)
