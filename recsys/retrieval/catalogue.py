from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Self

import numpy as np
import numpy.typing as npt

from recsys.data.schema import Schema
from recsys.data.streaming.frames import column_parts
from recsys.errors import DataError
from recsys.features.feature import FittedFeature
from recsys.features.id import FittedId
from recsys.retrieval.feature_roles import FeatureRole
from recsys.retrieval.query_role import EncodedColumns
from recsys.retrieval.query_role import query_role
from recsys.retrieval.values_by_id import values_by_id

if TYPE_CHECKING:
    import pandas as pd

    from recsys.data.streaming.split_stream import SplitStream


@dataclass(frozen=True, eq=False)
class Catalogue:
    """The items of a training split with their features.

    Attributes:
        item: The feature that says which item a row has.
        counts: How many rows have each item, int64 `(N + 1,)`; the first
            number is that of rows with an unknown one.
        values: For each further feature of the items, what a model takes for
            it, `(N + 1, ...)`.
        roles: For each feature, which tower sees it, and why.
    """

    item: str
    counts: npt.NDArray[np.int64]
    values: Mapping[str, np.ndarray]
    roles: Mapping[str, FeatureRole]

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.counts) - 1

    @property
    def shapes(self) -> dict[str, tuple[list[int], str]]:
        """For each further feature, its shape for one item, and its dtype."""
        return {
            name: (list(values.shape[1:]), values.dtype.name)
            for name, values in self.values.items()
        }

    @classmethod
    def of(
        cls,
        train: "SplitStream | pd.DataFrame",
        schema: Schema,
        features: Mapping[str, FittedFeature],
        named: str = "one of 'item_features'",
    ) -> Self:
        """Collects the items, in one pass for each feature.

        Args:
            train: The training split.
            schema: What its columns mean.
            features: The features, fitted.
            named: Why the item features that the schema names are such.

        Raises:
            DataError: No id feature says which item a row has, or there is
                nothing but items, or no item.
        """
        name = schema.item_id
        item = None if name is None else features[name]
        if name is None or not isinstance(item, FittedId):
            raise DataError.at(
                schema.place,
                "for retrieval, an id feature that is the 'item' in "
                "dataset.json, or is called item",
                f"the features {[*features]}",
            )
        if not item.vocabulary.size:
            raise DataError.at(
                f"{schema.place}, feature {name!r}",
                "for retrieval, at least one item",
                "none",
            )
        rows = item.num_rows
        counts = np.zeros(rows, np.int64)
        for part in column_parts(train, name):
            counts += np.bincount(item.encode(part), minlength=rows)

        columns = EncodedColumns(train, features)
        declared = schema.item_features
        values, why = {}, {}
        for feature in features if declared is None else declared:
            if feature not in (name, schema.user_id):
                item_values, why[feature] = values_by_id(
                    columns.parts(name, feature),
                    rows,
                    varies=declared is not None,
                )
                if item_values is not None:
                    values[feature] = item_values
        if len(values) + 1 == len(features):
            raise DataError.at(
                schema.place,
                "for retrieval, a feature that is not of the item",
                f"the features {[*features]}",
            )
        roles = {}
        for feature in features:
            reason = why.get(feature, f"not {named}")
            if feature == name:
                roles[feature] = FeatureRole("item", "what is recommended")
            elif feature in values:
                roles[feature] = FeatureRole("item", reason or named)
            else:
                roles[feature] = query_role(feature, reason, columns, schema)
        return cls(name, counts, values, roles)
