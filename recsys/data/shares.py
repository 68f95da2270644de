from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.errors import DataError


def share_borders(shares: Mapping[str, float]) -> list[float]:
    """Returns where splits begin that are shares off the end of a table.

    Args:
        shares: Splits with their shares of the rows, as they follow after the
            training split.

    Returns:
        The beginning of each, as a share of the rows.

    Raises:
        ValueError: A share is not between 0 and 1, or their sum is not.

    Example:
    >>> share_borders({"validation": 0.125, "test": 0.25})
    [0.625, 0.75]
    """
    sizes = list(shares.values())
    if not all(size > 0 for size in sizes) or not sum(sizes) < 1:
        is_single = len(sizes) == 1
        raise ValueError(
            f"The share{'' if is_single else 's'} of {' and '.join(shares)} "
            "must be positive, and less than "
            f"1{'' if is_single else ' together'}. "
            f"Received: {dict(shares)}"
        )
    return [1 - sum(sizes[first:]) for first in range(len(sizes))]


def cut_by_user(
    rows: pd.DataFrame,
    user: str,
    shares: Mapping[str, float],
    seed: int,
    source: object,
) -> dict[str, pd.DataFrame]:
    """Splits a table so that each user gives the same shares of their rows.

    The n rows of a user are put in a random order, which is cut at n times
    the beginning of each share, rounded (halves to the even number).

    Args:
        rows: The table, numbered from 0.
        user: Column that says whose each row is.
        shares: Splits with their shares of the rows, as they follow after the
            training split.
        seed: Seed of the orders.
        source: Where the table comes from, for the error message.

    Returns:
        The training split and the others by name, rows in the order of the
        table and numbered from 0.

    Raises:
        DataError: No user has enough rows for a row in each split.
        ValueError: A share is not between 0 and 1, or their sum is not.

    References:
        Argyriou, Gonzalez-Fierro, Zhang. Microsoft Recommenders: Best
        Practices for Production-Ready Recommendation Systems. WWW 2020 (its
        stratified split).

    Example:
    >>> rows = pd.DataFrame({"user": ["a", "b", "a", "a", "b", "a"]})
    >>> splits = cut_by_user(rows, "user", {"test": 0.5}, 0, "rows")
    >>> [sorted(split["user"]) for split in splits.values()]
    [['a', 'a', 'b'], ['a', 'a', 'b']]
    """
    borders = share_borders(shares)
    codes = pd.factorize(rows[user])[0]
    counts = np.bincount(codes)
    drawn = np.random.default_rng(seed).random(len(codes))
    order = np.lexsort([drawn, codes])  # The rows of a user together.
    first = np.cumsum(counts) - counts
    place = np.arange(len(codes)) - np.repeat(first, counts)
    number = np.zeros(len(codes), np.int64)  # Of the split of each row.
    for border in borders:
        starts = np.round(border * counts).astype(np.int64)
        number[order] += place >= np.repeat(starts, counts)
    splits = {
        name: rows[number == at].reset_index(drop=True)
        for at, name in enumerate(("train", *shares))
    }
    if not all(map(len, splits.values())):
        raise DataError.at(
            source,
            f"a user with enough rows for {len(splits)} splits",
            f"at most {counts.max()} rows of a user",
        )
    return splits
