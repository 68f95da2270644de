import numpy as np

from recsys.retrieval.query_role import EncodedColumns

# In a step of towers, where there are so many.
FEWEST_USERS = 32
# Of a training split, whose users and items are all in memory then: 1.5 GiB.
MOST_ROWS = 1 << 27


def user_queries(
    columns: EncodedColumns, user: str, names: list[str]
) -> dict[str, np.ndarray] | None:
    """Returns what queries are made of, if that is the user alone.

    Args:
        columns: The training split.
        user: The feature that says whose query a row is.
        names: The other features of queries.

    Returns:
        For each feature, `user` among them, the values of each user as a model
        takes them, `(users + 1, ...)`, those of no user first; `None` where a
        feature differs between rows of a user.
    """
    num_rows = columns.features[user].num_rows
    assert num_rows is not None, "an id"
    queries = {user: np.arange(num_rows, dtype=np.int32)}
    for name in names:
        values = _by_user(columns, user, name, num_rows)
        if values is None:
            return None
        queries[name] = values
    return queries


def _by_user(
    columns: EncodedColumns, user: str, name: str, num_rows: int
) -> np.ndarray | None:
    """The values of a feature by user, `None` where they differ."""
    values: np.ndarray | None = None
    for users, column in columns.parts(user, name):
        if values is None:
            values = np.zeros((num_rows, *column.shape[1:]), column.dtype)
            known = np.zeros(num_rows, bool)
        if values.shape[1:] != column.shape[1:]:
            return None  # Lists, of which a part has a longer one.
        _, first = np.unique(users, return_index=True)
        new = first[~known[users[first]]]
        values[users[new]] = column[new]
        known[users[new]] = True
        of_users = users > 0
        if not np.array_equal(
            column[of_users],
            values[users[of_users]],
            equal_nan=column.dtype.kind == "f",
        ):
            return None
    return values
