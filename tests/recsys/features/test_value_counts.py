from collections import Counter

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from recsys.features import Id
from recsys.features.value_counts import ValueCounts

PARTS = st.lists(st.lists(st.integers(0, 20) | st.none()), max_size=12)


@given(PARTS)
def test_counts_are_those_of_all_parts(parts: list[list[int | None]]) -> None:
    counts = ValueCounts.of(pd.Series(part, dtype="Int64") for part in parts)
    values = [value for part in parts for value in part if value is not None]
    assert counts.total.to_dict() == Counter(values)
    assert counts.total.to_dict() == Counter(values)  # Merged already.


@given(PARTS, st.integers(0, 11))
def test_integers_are_strings_beside_strings(
    parts: list[list[int | None]], place: int
) -> None:
    columns = [pd.Series(part, dtype="Int64") for part in parts]
    columns.insert(place, pd.Series(["7", "a", None]))
    values = [str(one) for part in parts for one in part if one is not None]
    total = ValueCounts.of(columns).total.to_dict()
    assert total == Counter([*values, "7", "a"])


def test_memory_follows_the_values_and_not_the_parts() -> None:
    counts, held = ValueCounts(), []
    for start in range(200):
        counts.add(pd.Series(range(start, start + 50)))
        parts = [counts._merged, *counts._others]
        held.append(sum(len(one) for one in parts if one is not None))
    assert max(held) <= 2 * 249 + 50
    assert len(counts.total) == 249


def test_ids_are_known_in_any_division() -> None:
    parts = [pd.Series([3, 1]), pd.Series([1, 2]), pd.Series([2, 1])]
    for columns in (parts, [pd.concat(parts)]):
        known = Id(min_count=2).fit(iter(columns)).vocabulary
        assert known is not None
        assert known.values.tolist() == [1, 2]
