import numpy as np
import pandas as pd

from recsys.retrieval.seen import Seen


def test_users_of_several_parts() -> None:
    seen = Seen.of(
        [
            (pd.Series([7, 9, 7]), np.array([3, 1, 2])),
            (pd.Series([8, 7]), np.array([5, 1])),
        ]
    )
    rows, items = seen.pairs(pd.Series([8, 4, 7]))
    assert rows.tolist() == [0, 2, 2, 2]
    assert items.tolist() == [5, 1, 2, 3]


def test_what_is_missing_or_unknown_counts_nothing() -> None:
    users = pd.Series(["a", None, "b"])
    seen = Seen.of([(users, np.array([1, 2, 0]))])
    assert seen.by("a").tolist() == [1]
    assert not len(seen.by("b"))
    assert not len(seen.by(None))


def test_nobody() -> None:
    assert not len(Seen.of([]).by("a"))


def test_users_are_their_texts_in_every_part() -> None:
    """A part of integers, one with texts, one beyond 64 bits, in any order."""
    parts = [
        (pd.Series([7, 2**53 + 1]), np.array([1, 2])),
        (pd.Series(["7", "007", None]), np.array([3, 4, 9])),
        (pd.Series([2**53 + 1, None], dtype="Int64"), np.array([5, 9])),
        (pd.Series([2**64 - 1, 2**53], dtype="uint64"), np.array([6, 7])),
    ]
    for given in (parts, parts[::-1], [parts[1], parts[0], *parts[2:]]):
        seen = Seen.of(given)
        assert seen.by(7).tolist() == seen.by("7").tolist() == [1, 3]
        assert seen.by("007").tolist() == [4]
        assert seen.by(2**53 + 1).tolist() == [2, 5]
        assert seen.by(str(2**53)).tolist() == [7]
        assert seen.by(2**64 - 1).tolist() == [6]
        rows, items = seen.pairs(pd.Series([str(2**53 + 1), "guest", None]))
        assert (rows.tolist(), items.tolist()) == ([0, 0], [2, 5])
