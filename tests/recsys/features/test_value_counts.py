import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.errors import RunError
from recsys.features import Bucket
from recsys.features import Id
from recsys.features import Ids
from recsys.features import scratch_database
from recsys.features import spilled_counts
from recsys.features import value_counts
from recsys.features.id_values import as_ids
from recsys.features.value_counts import ValueCounts
from tests.recsys.features import id_columns

pytestmark = pytest.mark.once("torch")

INTEGERS = st.lists(st.integers(0, 20) | st.none(), max_size=12)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
STRINGS = st.lists(TEXTS | st.integers(0, 20).map(str) | st.none(), max_size=12)
PARTS = st.lists(
    INTEGERS.map(lambda part: pd.Series(part, dtype="Int64"))
    | STRINGS.map(lambda part: pd.Series(part, dtype=object)),
    max_size=8,
)
NUMBERS = st.lists(
    st.lists(st.floats(width=32, allow_infinity=False), max_size=12)
)
any_bound = pytest.mark.parametrize("most_held", [0, 5, value_counts.MOST_HELD])


def counted(parts: Any, most_held: int) -> "pd.Series[Any]":
    with ValueCounts(most_held) as counts:
        for part in parts:
            counts.add(part)
        once = [*counts.sorted()]
        again = [*counts.sorted()]
        total: pd.Series[Any] = pd.concat(once or [pd.Series([], dtype=int)])
        assert [part.to_dict() for part in again] == [
            part.to_dict() for part in once
        ]
        assert counts.num_rows == total.sum()
    return total


@pytest.mark.slow
@any_bound
@given(parts=PARTS)
@settings(max_examples=25, deadline=None)
def test_counts_are_those_of_all_parts(
    most_held: int, parts: list["pd.Series[Any]"]
) -> None:
    values = [one for part in parts for one in part.dropna()]
    if any(isinstance(one, str) for one in values):
        values = [str(one) for one in values]
    expected = sorted(Counter(values).items())
    assert list(counted(parts, most_held).items()) == expected


@pytest.mark.slow
@pytest.mark.parametrize("most_held", [0, value_counts.MOST_HELD])
@given(parts=st.lists(id_columns.columns, max_size=4))
@settings(max_examples=25, deadline=None)
def test_ids_are_counted_by_their_texts(
    most_held: int, parts: list["pd.Series[Any]"]
) -> None:
    texts = [
        text for part in parts for text in id_columns.texts_of(part) if text
    ]
    counts = counted([as_ids(part, "log.csv") for part in parts], most_held)
    assert {str(id): n for id, n in counts.items()} == Counter(texts)
    assert counts.index.is_unique


def test_integers_of_any_type_are_counted() -> None:
    parts = [pd.Series([2**64 - 1, 5], dtype="UInt64"), pd.Series([5])]
    assert counted(parts, 0).to_dict() == {str(2**64 - 1): 1, "5": 2}


@pytest.mark.slow
@given(NUMBERS)
@settings(max_examples=25, deadline=None)
def test_numbers_are_counted_on_disk_as_in_memory(
    parts: list[list[float]],
) -> None:
    columns = [pd.Series(part, dtype="float32") for part in parts]
    held = counted(columns, value_counts.MOST_HELD)
    assert list(counted(columns, 0).items()) == list(held.items())


@pytest.fixture(params=[2, value_counts.MOST_HELD])
def bound(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> int:
    init = ValueCounts.__init__
    monkeypatch.setattr(
        ValueCounts, "__init__", lambda self: init(self, request.param)
    )
    return int(request.param)


@pytest.mark.usefixtures("bound")
def test_ids_are_known_in_any_division() -> None:
    parts = [pd.Series([3, 1]), pd.Series([1, 2, 4]), pd.Series([2, 1])]
    for columns in (parts, [pd.concat(parts)]):
        known = Id(min_count=2).fit(iter(columns)).vocabulary
        assert known.values.tolist() == [1, 2]
        assert known.values.dtype == "int64"


@pytest.mark.usefixtures("bound")
def test_ids_of_lists_are_strings_where_one_is() -> None:
    parts = [[[3, 10], [], [7]], [["x"], ["ä", "z"], ["10"]]]
    columns = [Ids().check(pd.Series(part), "log") for part in parts]
    known = Ids().fit(iter(columns)).vocabulary
    assert known.values.tolist() == ["10", "3", "7", "x", "z", "ä"]
    assert known.encode(pd.Series([7, 10])).tolist() == [3, 1]


@pytest.mark.usefixtures("bound")
def test_quantiles_are_exact() -> None:
    numbers = np.random.default_rng(0).normal(size=500).round(1)
    borders = Bucket(quantiles=8).fit([*map(pd.Series, numbers.reshape(5, -1))])
    expected = np.quantile(
        numbers.astype("float32"), np.arange(1, 8) / 8, method="higher"
    )
    assert borders.borders == np.unique(expected).tolist()


def test_quantiles_lie_in_any_of_the_parts_that_are_read_back(
    monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(spilled_counts, "_ROWS", 3)
    numbers = pd.Series(np.arange(40.0).repeat(3))
    borders = Bucket(quantiles=4).fit([numbers]).borders
    assert borders == [10.0, 20.0, 30.0]


def test_memory_follows_the_values_and_not_the_parts() -> None:
    counts, held = ValueCounts(), []
    for start in range(200):
        counts.add(pd.Series(range(start, start + 50)))
        parts = [counts._held._merged, *counts._held._unmerged]
        held.append(sum(map(len, parts)))
    assert max(held) <= 2 * 249 + 50
    assert [len(part) for part in counts.sorted()] == [249]


def test_values_beyond_the_bound_are_not_in_memory() -> None:
    with ValueCounts(most_held=100) as counts:
        for start in range(0, 2000, 50):
            counts.add(pd.Series(range(start, start + 50)))
            parts = [counts._held._merged, *counts._held._unmerged]
            assert sum(map(len, parts)) <= 2 * 100 + 50
        assert sum(map(len, counts.sorted())) == 2000


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_is_removed(scratch: Path) -> None:
    with ValueCounts(most_held=1) as counts:
        assert not [*scratch.iterdir()]
        counts.add(pd.Series(["a", "b"]))
        assert [*counts.sorted()]
        (folder,) = scratch.iterdir()
        assert (folder / "sorted.parquet").exists()
    assert not [*scratch.iterdir()]


@pytest.mark.usefixtures("bound")
def test_the_folder_is_removed_after_an_error(scratch: Path) -> None:
    def parts() -> Iterator["pd.Series[Any]"]:
        yield pd.Series(range(9))
        raise KeyError("the next part")

    for kind in (Id(), Bucket()):
        with pytest.raises(KeyError, match="the next part"):
            kind.fit(parts())
    assert not [*scratch.iterdir()]


def test_the_engine_needs_more_memory_than_it_may_take(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch_database, "MEMORY_LIMIT", "1MB")
    with pytest.raises(RunError, match=r"recsys-counts-.*room for.*Received"):
        counted([pd.Series(range(200_000))], most_held=1)
    assert not [*scratch.iterdir()]
