from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from recsys.data.schema import Schema
from recsys.data.streaming.frames import column_parts
from recsys.data.times import parse_times
from recsys.retrieval.encoded_columns import EncodedColumns
from recsys.retrieval.feature_roles import FeatureRole
from recsys.retrieval.follows_item import Rows
from recsys.retrieval.follows_item import follows_item

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 1 << 20  # As many are looked at to see whether a feature follows.


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
