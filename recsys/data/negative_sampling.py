"""Rows of items that users have not had, beside those that they have."""

import logging
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace

import numpy as np
import pandas as pd

from recsys.data.dataset import Dataset
from recsys.data.dataset import unify
from recsys.data.negative_draws import UnseenItems
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.choices import check_choice
from recsys.tasks import Binary

_log = logging.getLogger(__name__)

SAMPLINGS = ("uniform", "popularity")


def with_negatives(
    dataset: Dataset,
    negatives: int,
    sampling: str = "uniform",
    evaluation_negatives: int = 0,
    seed: int = 0,
) -> Dataset:
    """Returns a data set with rows of items that users have not had.

    Each positive row, one with a 1 in any binary task, is followed by rows
    that have all of its values but those of the item: the item is another
    one of the training split, with the features of its last row there. It is
    none that the user has in any row of any split, and none twice for a row.
    Binary tasks are 0 in these rows, all other labels missing.

    Args:
        dataset: The data set; its schema says which columns are user and item.
        negatives: Rows for each positive one of the training split.
        sampling: `"uniform"` (default) for all items alike, `"popularity"`
            for each as often as it has positive rows in the training split.
        evaluation_negatives: The same for the validation and the test split.
            Defaults to 0, to leave them as they are.
        seed: Seed of the draws. Defaults to 0.

    Returns:
        The data set, rows without a user or an item, or whose user has had
        all items, with fewer or none.

    Raises:
        DataError: There is no binary task, no user, no item or no positive
            row.
        ValueError: A number is below 0, or `sampling` unknown.

    Example:
    >>> columns = {"user": "id", "item": "id"}
    >>> schema = Schema("shop", columns, {"buy": "binary"})
    >>> rows = {"user": ["a", "b"], "item": ["x", "y"], "buy": [1.0, 1.0]}
    >>> names = ("train", "validation", "test")
    >>> dataset = Dataset(schema, dict.fromkeys(names, pd.DataFrame(rows)))
    >>> with_negatives(dataset, 1, evaluation_negatives=1).split("train")
      user item  buy
    0    a    x  1.0
    1    a    y  0.0
    2    b    y  1.0
    3    b    x  0.0
    """
    counts = {"negatives": negatives}
    counts["evaluation_negatives"] = evaluation_negatives
    for name, count in counts.items():
        if count < 0:
            raise ValueError(
                f"`{name}` must be at least 0. Received: {name}={count}"
            )
    check_choice("negative_sampling", sampling, SAMPLINGS)
    splits = {name: rows.copy() for name, rows in dataset.splits.items()}
    parts = {
        f"{dataset.schema.place}, {name} split": rows
        for name, rows in splits.items()
    }
    unify(parts.items(), dataset.schema.columns)
    sampler = _Sampler.of(dataset.schema, splits, sampling)
    wanted = dict.fromkeys(splits, evaluation_negatives)
    wanted["train"] = negatives
    done, notes, few = dict(splits), {}, 0
    for number, (name, count) in enumerate(wanted.items()):
        if count:
            rng = np.random.default_rng((seed, number))
            done[name], notes[name], short = sampler.sampled(name, count, rng)
            few += short
        elif name != "train":
            sampler.warn_without_zeros(name)
    if few:
        _log.warning(
            "%s positive rows have fewer negatives than asked for, as their "
            "users have had all other items.",
            f"{few:,}",
        )
    return replace(dataset, splits=done, notes=notes)


@dataclass(frozen=True)
class _Sampler:
    """Splits from which negatives are drawn.

    Attributes:
        schema: What the columns mean.
        splits: The splits, ids of one form in all of them.
        users: By split the number of each row's user, -1 where missing.
        items: The same of items.
        unseen: What draws.
        columns: The columns that are of the item.
    """

    schema: Schema
    splits: Mapping[str, pd.DataFrame]
    users: Mapping[str, np.ndarray]
    items: Mapping[str, np.ndarray]
    unseen: UnseenItems
    columns: Sequence[str]

    @classmethod
    def of(
        cls, schema: Schema, splits: Mapping[str, pd.DataFrame], sampling: str
    ) -> "_Sampler":
        place = f"{schema.place}, for negatives"
        _check_schema(schema, place)
        users = _numbered(splits, str(schema.user_id))
        items = _numbered(splits, str(schema.item_id))
        positive = _positive(splits["train"], schema) & (items["train"] >= 0)
        if not positive.any():
            raise DataError.at(
                place, "a training row with a 1 and an item", "none"
            )
        had_by, had = (
            np.concatenate([*numbers.values()]) for numbers in (users, items)
        )
        counted = positive if sampling == "popularity" else items["train"] >= 0
        # Items that training does not know have weight 0: they are not drawn.
        weights = np.bincount(
            items["train"][counted], minlength=int(had.max()) + 1
        )
        if sampling == "uniform":
            weights = np.minimum(weights, 1)
        known = (had_by >= 0) & (had >= 0)
        unseen = UnseenItems(had_by[known], had[known], weights)
        columns = item_columns(splits["train"], schema)
        return cls(schema, splits, users, items, unseen, columns)

    def sampled(
        self, split: str, count: int, rng: np.random.Generator
    ) -> tuple[pd.DataFrame, list[str], int]:
        """A split with its negatives, a note, and how many rows got too few."""
        rows = self.splits[split]
        users, items = self.users[split], self.items[split]
        positive = _positive(rows, self.schema) & (users >= 0) & (items >= 0)
        sources = np.flatnonzero(positive)
        drawn = self.unseen.draw(users[sources], count, rng)
        there = drawn >= 0
        sources = np.repeat(sources, count)[there.ravel()]
        negative = self._negative_rows(
            rows.iloc[sources], drawn.ravel()[there.ravel()]
        )
        joined = pd.concat([rows, negative], ignore_index=True)
        # Each behind the row that it is for.
        places = np.concatenate([np.arange(len(rows)), sources])
        joined = joined.iloc[np.argsort(places, kind="stable")]
        note = (
            f"{len(negative):,} negatives, for {positive.sum():,} positive "
            f"rows; of the item: {', '.join(self.columns)}"
        )
        few = int((drawn[:, -1] < 0).sum())
        return joined.reset_index(drop=True), [note], few

    def _negative_rows(
        self, sources: pd.DataFrame, items: np.ndarray
    ) -> pd.DataFrame:
        """The rows with other items, and their labels."""
        train, numbers = self.splits["train"], self.items["train"]
        last = np.zeros(numbers.max() + 1, np.int64)
        known = np.flatnonzero(numbers >= 0)
        last[numbers[known]] = known  # The last of several holds.
        columns: dict[str, np.ndarray] = {
            name: train[name].take(last[items]).array for name in self.columns
        }
        for name in self.schema.tasks:
            label = 0.0 if name in _binary(self.schema) else np.nan
            columns[name] = np.full(len(items), label)
        return sources.assign(**columns)

    def warn_without_zeros(self, split: str) -> None:
        """Warns of a split without negatives, by which nothing is measured."""
        labels = self.splits[split][_binary(self.schema)]
        if not (labels == 0).to_numpy().any():
            _log.warning(
                "The %s split has no row with a 0: its loss is lowest for a "
                "model that always predicts 1. evaluation_negatives=1 or more "
                "gives it negatives, too.",
                split,
            )


def _check_schema(schema: Schema, place: str) -> None:
    """Checks that there are a binary task, a user and an item."""
    if not _binary(schema):
        raise DataError.at(
            place, "a binary task", f"the tasks {[*schema.tasks]}"
        )
    roles = {"user": schema.user_id, "item": schema.item_id}
    for role, column in roles.items():
        if column is None:
            raise DataError.at(
                place,
                f"an id feature that is the {role}, called {role!r} or named "
                f"by the option {role}",
                f"the features {[*schema.features]}",
            )


def _binary(schema: Schema) -> list[str]:
    return [
        name for name, kind in schema.tasks.items() if isinstance(kind, Binary)
    ]


def _positive(rows: pd.DataFrame, schema: Schema) -> np.ndarray:
    """Returns whether each row has a 1 in any binary task."""
    return np.asarray((rows[_binary(schema)] == 1).any(axis=1))


def _numbered(
    splits: Mapping[str, pd.DataFrame], column: str
) -> dict[str, np.ndarray]:
    """The ids of a column as integers from 0, -1 where missing, by split."""
    joined = pd.concat([rows[column] for rows in splits.values()])
    numbers, _ = pd.factorize(joined)
    ends = np.cumsum([len(rows) for rows in splits.values()])
    parts = np.split(numbers.astype(np.int64), ends[:-1])
    return dict(zip(splits, parts, strict=True))


def item_columns(train: pd.DataFrame, schema: Schema) -> list[str]:
    """Returns which columns are of the item, the item first.

    They are those that the schema names or, where it names none, the features
    that never differ between two rows of the same item, as the towers of a
    retrieval divide them.

    Args:
        train: The training split.
        schema: What its columns mean, an item among them.

    Example:
    >>> kinds = {"user": "id", "item": "id", "brand": "id", "hour": "number"}
    >>> schema = Schema("shop", kinds, {"buy": "binary"})
    >>> rows = {"user": [1, 2, 1], "item": ["x", "x", "y"]}
    >>> rows |= {"brand": ["b", "b", "c"], "hour": [7.0, 8.0, 9.0]}
    >>> item_columns(pd.DataFrame(rows), schema)
    ['item', 'brand']
    """
    item = str(schema.item_id)
    if schema.item_features is not None:
        return [item, *schema.item_features]
    items = pd.factorize(train[item])[0]
    candidates = [
        name
        for name in schema.features
        if name not in (item, schema.user_id, schema.group, schema.time)
    ]
    varying = [name for name in candidates if _is_of(items, train[name])]
    return [item, *varying]


def _is_of(items: np.ndarray, column: pd.Series) -> bool:
    """Returns whether items have one value each, some in several rows."""
    known = items >= 0
    values = _codes(column)[known]
    items = items[known]
    pairs = np.unique(items * (values.max(initial=0) + 2) + values)
    num_items = len(np.unique(items))
    return len(pairs) == num_items < len(items)


def _codes(column: pd.Series) -> np.ndarray:
    """The values as integers from 0; missing ones are alike."""
    if column.dtype == object:
        column = column.map(_hashable)
    numbers: np.ndarray = pd.factorize(column)[0]
    return numbers + 1


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list | np.ndarray) else value
