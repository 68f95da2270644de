"""Two readings of "users and items with at least so many records"."""

from collections.abc import Callable

import pandas as pd


def one_pass(records: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """Keeps the records whose user and item both have enough of them.

    They are counted among all records given, so that a user or an item may be
    left with fewer.

    Args:
        records: Columns user and item at least.
        minimum: Fewest records of a user, and of an item.

    Returns:
        The rows that are kept, in their order.

    Example:
    >>> records = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7]})
    >>> one_pass(records, 2)
       user  item
    0     1     7
    """
    enough = pd.Series(True, records.index)
    for column in ("user", "item"):
        size = records.groupby(column)[column].transform("size")
        enough &= size >= minimum
    return records[enough]


def k_core(records: pd.DataFrame, minimum: int) -> pd.DataFrame:
    """Repeats `one_pass` until every user and item left has enough records.

    That is the k-core of the graph that has an edge for each record, with k
    the minimum. Arguments and result are those of `one_pass`.

    Example:
    >>> records = pd.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7]})
    >>> len(k_core(records, 2))
    0
    """
    while len(kept := one_pass(records, minimum)) < len(records):
        records = kept
    return records


FILTERS: dict[str, Callable[[pd.DataFrame, int], pd.DataFrame]] = {
    "k-core": k_core,
    "one-pass": one_pass,
}
