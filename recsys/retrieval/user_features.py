"""Features of users, for a tower that reads their histories."""

from collections.abc import Container
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from keras import ops

from recsys.data.schema import Schema
from recsys.data.streaming.split_stream import SplitStream
from recsys.features.feature import FittedFeature
from recsys.features.number import FittedNumber
from recsys.retrieval.query_role import EncodedColumns
from recsys.retrieval.values_by_id import values_by_id


def looked_up(feature: FittedFeature, values: Any) -> Any:
    """Returns what a tower takes for a feature: numbers by their buckets.

    Args:
        feature: The feature.
        values: A batch of what it encodes.
    """
    if isinstance(feature, FittedNumber) and feature.num_rows is not None:
        return feature.ids(values)
    return values


def encode_looked_up(feature: FittedFeature, column: pd.Series) -> np.ndarray:
    """Returns what a tower takes for a column, as an array.

    Args:
        feature: The feature.
        column: Its values.
    """
    values = looked_up(feature, feature.encode(column))
    return np.asarray(ops.convert_to_numpy(values))


def features_of_users(
    train: SplitStream | pd.DataFrame,
    schema: Schema,
    features: Mapping[str, FittedFeature],
    of_items: Container[str],
) -> dict[str, np.ndarray]:
    """Returns the features that have the same value in all rows of a user.

    What changes from row to row tells of a moment and not of a user; it is for
    the ranker alone.

    Args:
        train: The training split.
        schema: What its columns mean.
        features: The features, fitted.
        of_items: The features of items, which are none of users.

    Returns:
        By feature, what a tower takes for each user, `(users + 1, ...)`.
    """
    user = schema.user_id
    if user is None:
        return {}
    columns = EncodedColumns(train, features)
    num_users = features[user].num_rows
    assert num_users is not None, "users are ids"
    of_users = {}
    for name, feature in features.items():
        if name in (user, schema.item_id) or name in of_items:
            continue
        values, _ = values_by_id(
            columns.parts(user, name), num_users, varies=False, of="a user"
        )
        if values is not None:
            taken = looked_up(feature, values)
            of_users[name] = np.asarray(ops.convert_to_numpy(taken))
    return of_users
