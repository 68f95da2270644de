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
