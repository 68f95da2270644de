import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.datasets.histories import drawn_times
from recsys.data.datasets.histories import histories

table = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=20)


@given(table, table, st.integers(1, 4))
def test_a_history_is_what_the_user_did_before(
    rows: list[tuple[int, int]], done: list[tuple[int, int]], length: int
) -> None:
    asked = pd.DataFrame(rows, columns=["user", "time"], dtype="int64")
    known = pd.DataFrame(done, columns=["user", "time"], dtype="int64")
    known["item"] = np.arange(len(known)) + 100
    received = histories(asked, known, length)
    for (user, time), items in zip(rows, received, strict=True):
        before = [
            (at, item)
            for item, (other, at) in enumerate(done, 100)
            if other == user and at < time
        ]
        expected = [item for _, item in sorted(before)][-length:]
        assert items.tolist() == expected


def test_a_time_that_is_missing_is_one_of_the_users() -> None:
    rows = pd.DataFrame(
        {"user": [1, 2, 1, 2, 1], "time": [5.0, 7.0, None, None, 6.0]}
    )
    times = drawn_times(rows, np.random.default_rng(0)).tolist()
    assert times[:2] == [5, 7]
    assert times[2] in (5, 6)
    assert times[3:] == [7, 6]
