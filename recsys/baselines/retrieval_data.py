from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import pandas as pd

from recsys.baselines.interactions import Interactions
from recsys.baselines.interactions import Part
from recsys.baselines.interactions import Queries
from recsys.baselines.interactions import all_ids
from recsys.data.load import AnyDataset
from recsys.data.streaming.frames import column_parts
from recsys.errors import DataError
from recsys.features import Id
from recsys.features.id_positions import id_positions
from recsys.features.value_counts import ValueCounts
from recsys.retrieval.counting_rows import counting_rows
from recsys.retrieval.seen import Seen
from recsys.retrieval.seen import splits_before


class RetrievalData:
    """Interactions of users and items in a data set.

    Args:
        dataset: The data set.
        label: The binary task whose label is 1 in rows that count, or "all".

    Raises:
        DataError: The data name no user, or no item, as an id feature.
    """

    def __init__(self, dataset: AnyDataset, label: str) -> None:
        self.dataset = dataset
        self.label = label
        self.user = self._id_feature("user", dataset.schema.user_id)
        self.item = self._id_feature("item", dataset.schema.item_id)

    def _id_feature(self, role: str, name: str | None) -> str:
        schema = self.dataset.schema
        if name is None or not isinstance(schema.features.get(name), Id):
            raise DataError.at(
                schema.place,
                f"for retrieval, an id feature that is the {role!r} in "
                f"dataset.json, or is called {role}",
                f"the features {[*schema.features]}",
            )
        return name

    def interactions(self, splits: Sequence[str]) -> Interactions:
        """Returns who has had what in some splits.

        Args:
            splits: Their names. The catalogue are all items that are often
                enough there, as the feature of the item says.

        Raises:
            DataError: There is no item.
        """
        kind = self.dataset.schema.features[self.item]
        assert isinstance(kind, Id), "checked before"
        with ValueCounts() as counts:
            for split in splits:
                rows: Any = self.dataset.split(split)
                for part in column_parts(rows, self.item):
                    counts.add(part)
            items: pd.Index = all_ids(counts, kind.min_count)
        if not len(items):
            raise DataError.at(
                f"{self.dataset.schema.place}, feature {self.item!r}",
                "for retrieval, at least one item",
                "none",
            )
        parts = (part for split in splits for part in self._parts(split))
        return Interactions.of(parts, items)

    def queries(self, split: str) -> Queries:
        """Returns the rows of a split that count.

        Args:
            split: Its name.

        Raises:
            DataError: No row counts.
        """
        queries = Queries.of(self._parts(split))
        if not len(queries.weights):
            raise DataError.at(
                f"{self.dataset.schema.place}, {split} split",
                f"a row that counts for retrieval, by {self.label!r}",
                "none",
            )
        return queries

    def seen(self, split: str, items: pd.Index) -> Seen:
        """Returns what users have had before the rows of a split.

        Args:
            split: Its name.
            items: The ids of the catalogue, whose items are numbered from 1.
        """
        return Seen.of(
            (users, id_positions(ids, items) + 1)
            for before in splits_before(split)
            for users, ids, _ in self._parts(before)
        )

    def _parts(self, split: str) -> Iterator[Part]:
        schema = self.dataset.schema
        rows = self.dataset.split(split)
        for frame, weights in counting_rows(
            rows, schema, schema.tasks, self.label
        ):
            yield frame[self.user], frame[self.item], weights
