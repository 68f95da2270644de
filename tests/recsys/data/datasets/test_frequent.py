import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.data.datasets.frequent import FILTERS
from recsys.data.datasets.frequent import k_core
from recsys.data.datasets.frequent import one_pass

# User 3 has two records, one of a book that is then too rare.
CHAIN = pd.DataFrame(
    {"user": [1, 1, 2, 2, 3, 3, 4], "item": list("abababc"[:4]) + list("acb")}
)

tables = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 6)), unique=True
).map(lambda pairs: pd.DataFrame(pairs, columns=["user", "item"]))
minimum = st.integers(1, 3)


def pairs(records: pd.DataFrame) -> list[tuple[int, str]]:
    return list(zip(records["user"], records["item"], strict=True))


def test_one_pass_counts_among_all_records() -> None:
    # Books a: 3, b: 3, c: 1; users 1 to 3: 2, user 4: 1.
    assert pairs(one_pass(CHAIN, 2)) == [
        (1, "a"),
        (1, "b"),
        (2, "a"),
        (2, "b"),
        (3, "a"),
    ]


def test_the_k_core_counts_among_the_kept_ones() -> None:
    # User 3 is left with one record, and goes.
    kept = [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert pairs(k_core(CHAIN, 2)) == kept


def test_nothing_is_dropped_with_a_minimum_of_1() -> None:
    for keep in FILTERS.values():
        assert keep(CHAIN, 1).equals(CHAIN)


@settings(deadline=None, max_examples=50)
@given(tables, minimum)
def test_everything_left_in_the_k_core_has_enough(
    records: pd.DataFrame, minimum: int
) -> None:
    kept = k_core(records, minimum)
    for column in ("user", "item"):
        assert (kept[column].value_counts() >= minimum).all()
    assert set(kept.index) <= set(one_pass(records, minimum).index)


@pytest.mark.parametrize("name", FILTERS)
def test_no_records(name: str) -> None:
    assert FILTERS[name](CHAIN[:0], 2).empty
