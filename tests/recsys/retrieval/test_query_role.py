from typing import Any

import numpy as np
import pytest

from recsys.retrieval.query_role import follows_item

RNG = np.random.default_rng(0)
ITEMS, USERS = RNG.integers(1, 11, 600), RNG.integers(1, 31, 600)
QUALITY = RNG.uniform(1, 5, 11)
RATINGS = QUALITY[ITEMS] + RNG.normal(0, 1, 600)


def so_far(ids: Any, values: Any) -> Any:
    """The mean of the earlier values with the same id, NaN for the first."""
    means = np.full(len(ids), np.nan)
    for row in range(len(ids)):
        earlier = values[:row][ids[:row] == ids[row]]
        if len(earlier):
            means[row] = earlier.mean()
    return means


def told(values: Any, users: Any = USERS, parts: int = 1) -> bool:
    columns = (np.array_split(one, parts) for one in (ITEMS, users, values))
    return follows_item(zip(*columns, strict=True))


@pytest.mark.parametrize("parts", [1, 3])
def test_means_and_numbers_so_far_follow_their_item(parts: int) -> None:
    assert told(so_far(ITEMS, RATINGS), parts=parts)
    counts = np.array([(ITEMS[:row] == ITEMS[row]).sum() for row in range(600)])
    assert told(counts.astype(np.float32), parts=parts)


def test_a_label_of_the_item_with_a_few_slips_does() -> None:
    names = np.where(RNG.uniform(size=600) < 0.05, 0, ITEMS)
    assert told(names.astype(np.int32))
    assert told(np.stack([names, names], axis=1))


@pytest.mark.parametrize(
    "values",
    [
        RNG.normal(size=600),
        RNG.integers(0, 24, 600),
        np.arange(600.0),  # The time of day drifts for all items alike.
        RNG.uniform(18, 80, 31)[USERS],  # The age of a user.
        so_far(USERS, RNG.normal(size=31)[USERS] + RNG.normal(0, 1, 600)),
        np.zeros(600),
        np.full(600, np.nan),
    ],
)
def test_what_is_of_users_or_of_the_moment_does_not(values: Any) -> None:
    assert not told(values)


def test_what_is_the_users_is_not_taken_for_the_items_of_that_user() -> None:
    """Each user has items of their own."""
    users = np.where(ITEMS > 5, 1, 2)
    assert not told(RNG.uniform(18, 80, 3)[users], users)


def test_of_few_rows_nothing_is_concluded() -> None:
    few = ITEMS[:12], USERS[:12], so_far(ITEMS, RATINGS)[:12]
    assert not follows_item([few])
    assert not follows_item([])
    assert not follows_item([tuple(column[:0] for column in few)])
