"""Histories of users before each row."""

import numpy as np
import pandas as pd


def histories(rows: pd.DataFrame, done: pd.DataFrame, length: int) -> pd.Series:
    """Returns, for each row, the items of its user's earlier rows.

    Args:
        rows: Columns user and time.
        done: Columns user, item and time: what a history may consist of. Only
            what comes before the time of a row, not at it, is in its history.
        length: Most items of a history, the last ones.

    Returns:
        Arrays of items, oldest first, indexed as the rows.

    Example:
    >>> done = pd.DataFrame(
    ...     {"user": [1, 1, 2], "item": [7, 8, 9], "time": [5, 3, 1]}
    ... )
    >>> rows = pd.DataFrame({"user": [1, 1, 3], "time": [9, 5, 9]})
    >>> [items.tolist() for items in histories(rows, done, length=5)]
    [[8, 7], [8], []]
    """
    ordered = done.sort_values("time", kind="stable")
    items, times = ordered["item"].to_numpy(), ordered["time"].to_numpy()
    of_user = ordered.groupby("user", sort=False).indices
    row_times = rows["time"].to_numpy()
    histories = np.empty(len(rows), object)
    for user, places in rows.groupby("user", sort=False).indices.items():
        events = of_user.get(user, np.array([], np.intp))
        ends = np.searchsorted(times[events], row_times[places])
        for place, end in zip(places, ends, strict=True):
            histories[place] = items[events[max(0, end - length) : end]]
    return pd.Series(histories, rows.index, dtype=object)


def drawn_times(
    rows: pd.DataFrame, generator: np.random.Generator
) -> "pd.Series[float]":
    """Returns the times of rows, drawn where there is none.

    A row without a time gets one of those that its user's other rows have, so
    that times do not tell which rows had one.

    Args:
        rows: Columns user and time, at least one time for each user.
        generator: Draws.
    """
    times = rows["time"].to_numpy(np.float64).copy()
    for places in rows.groupby("user", sort=False).indices.values():
        missing = np.isnan(times[places])
        known = times[places[~missing]]
        times[places[missing]] = generator.choice(known, missing.sum())
    return pd.Series(times, rows.index)
