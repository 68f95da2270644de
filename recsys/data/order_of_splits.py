import pandas as pd

from recsys.data.times import parse_times
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids


def come_later(
    rows: pd.DataFrame, next_rows: pd.DataFrame, user: str, time: str
) -> bool:
    """Whether most rows of known users come after all that these had before.

    Args:
        rows: What users had before, such as the training split.
        next_rows: Rows of the same log, such as the validation split. Those of
            users that `rows` does not have are left out.
        user: The column of the users' ids.
        time: The column of times.

    Returns:
        Whether these rows are later than the user's last one in `rows` in more
        than half of the cases; `False` where no user is known.

    Raises:
        DataError: An id or a time is none.

    Example:
    >>> before = pd.DataFrame({"user": ["a", "a", "b"], "time": [1, 4, 2]})
    >>> after = pd.DataFrame({"user": ["a", "b", "c"], "time": [5, 3, 0]})
    >>> come_later(before, after, "user", "time")
    True
    """
    users, next_users = unified_ids(
        [as_ids(part[user], "the splits") for part in (rows, next_rows)]
    )
    times, next_times = (
        parse_times(part[time], "the splits").set_axis(part.index)
        for part in (rows, next_rows)
    )
    last = times.groupby(users).max()
    known = next_users.isin(last.index)
    if not known.any():
        return False
    later = next_times[known] > next_users[known].map(last)
    return bool(later.mean() > 0.5)
