import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.errors import FileError
from recsys.features.id_uses import IdUses
from recsys.features.vocabulary import Vocabulary
from tests.recsys.features.id_columns import columns
from tests.recsys.features.id_columns import texts_of


def encode(vocabulary: Vocabulary, values: list[Any], **kind: Any) -> Any:
    return vocabulary.encode(pd.Series(values, **kind)).tolist()


def test_integers() -> None:
    vocabulary = Vocabulary.of(pd.Series([30, 10, 20, 10]))
    assert vocabulary.size == 3
    assert not vocabulary.holds_strings
    assert encode(vocabulary, [10, 20, 30, 40, -1]) == [1, 2, 3, 0, 0]


def test_integers_with_missing_ones() -> None:
    vocabulary = Vocabulary.of(pd.Series([2, None, 1], dtype="Int64"))
    assert vocabulary.size == 2
    assert encode(vocabulary, [1, None, 2], dtype="Int64") == [1, 0, 2]


def test_strings_with_missing_ones() -> None:
    vocabulary = Vocabulary.of(pd.Series(["b", None, "a"]))
    assert vocabulary.holds_strings
    assert encode(vocabulary, ["a", "b", "c", None]) == [1, 2, 0, 0]


def test_large_integers_are_told_apart() -> None:
    vocabulary = Vocabulary.of(pd.Series([2**60, 2**60 + 1]))
    assert encode(vocabulary, [2**60 + 1, 2**60 + 2]) == [2, 0]


def test_integer_column_of_a_string_vocabulary() -> None:
    vocabulary = Vocabulary.of(pd.Series(["7", "x"]))
    assert encode(vocabulary, [7, 8]) == [1, 0]


def test_string_column_of_an_integer_vocabulary() -> None:
    vocabulary = Vocabulary.of(pd.Series([7, 8]))
    assert encode(vocabulary, ["8", "x", None]) == [2, 0, 0]


def test_nothing_known() -> None:
    vocabulary = Vocabulary.of(pd.Series([None, None], dtype="Int64"))
    assert vocabulary.size == 0
    assert encode(vocabulary, [1, 2]) == [0, 0]


def test_no_rows() -> None:
    vocabulary = Vocabulary.of(pd.Series([1, 2]))
    numbers = vocabulary.encode(pd.Series([], dtype="int64"))
    assert numbers.shape == (0,)
    assert numbers.dtype == np.int32


@pytest.mark.parametrize("values", [[5, 6], ["a\nb", '"é"', ""]])
def test_assets_hold_the_ids(values: list[Any], tmp_path: Any) -> None:
    vocabulary = Vocabulary.of(pd.Series(values))
    vocabulary.save_assets(tmp_path)
    restored = Vocabulary.from_config(vocabulary.get_config())
    restored.load_assets(tmp_path)
    column = pd.Series(values)
    assert (restored.encode(column) == vocabulary.encode(column)).all()
    assert restored.holds_strings == vocabulary.holds_strings


ids = st.lists(st.integers(-9, 9)) | st.lists(st.sampled_from("abc7"))


def index_of(values: list[Any]) -> "pd.Index[Any]":
    return Vocabulary.of(pd.Series(values)).values


@pytest.mark.once("torch")
@given(ids, ids, ids)
def test_growing_keeps_the_number_of_every_known_id(
    first: list[Any], second: list[Any], third: list[Any]
) -> None:
    vocabulary = Vocabulary.of(pd.Series(first))
    for values in (second, third):
        grown = vocabulary.grown(index_of(values))
        known = list(range(1, vocabulary.size + 1))
        assert encode(grown, vocabulary.values.tolist()) == known
        assert all(encode(grown, values))
        assert grown.size == len({*map(str, [*vocabulary.values, *values])})
        grown.check("user")
        vocabulary = grown


def test_integers_grown_by_strings_become_strings() -> None:
    vocabulary = Vocabulary.of(pd.Series([7, 8]))
    grown = vocabulary.grown(pd.Index(["007", "8", "x"]))
    assert grown.values.tolist() == ["7", "8", "007", "x"]
    assert encode(grown, [7, 8]) == [1, 2]


def test_strings_grown_by_integers_stay_strings() -> None:
    grown = Vocabulary.of(pd.Series(["x", "7"])).grown(pd.Index([3, 7]))
    assert grown.values.tolist() == ["7", "x", "3"]


def test_large_integers_are_grown_exactly() -> None:
    vocabulary = Vocabulary.of(pd.Series([2**60]))
    grown = vocabulary.grown(pd.Index([2**60, 2**60 + 1]))
    assert grown.values.tolist() == [2**60, 2**60 + 1]
    assert not grown.holds_strings


@pytest.mark.parametrize("values", [[], ["a", "é", '"b"', ", "], [7, 8, 9]])
def test_ids_are_written_some_at_a_time(
    values: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recsys.features.vocabulary._IDS_AT_ONCE", 2)
    vocabulary = Vocabulary.of(pd.Series(values))
    vocabulary.save_assets(str(tmp_path))
    text = (tmp_path / "values.json").read_text(encoding="utf-8")
    ids = vocabulary.values.tolist()
    assert text == json.dumps(ids, ensure_ascii=False)


@pytest.mark.parametrize("ids", [["é", "b", "c"], [2**53, 2**53 + 1, 7]])
@pytest.mark.parametrize("count", [3, 2**40])
def test_uses_are_written_and_read(
    ids: list[Any], count: int, tmp_path: Path
) -> None:
    vocabulary = Vocabulary.of_sorted(ids[:2])
    vocabulary.uses = IdUses(
        4,
        np.array([4, 2], np.int32),
        pd.Index(ids[2:]),
        np.array([0, 2, 2], np.int32),
        np.array([4, 2, 3], np.int32),
        np.array([1, 2, count]),
    )
    vocabulary.save_assets(str(tmp_path))
    other = Vocabulary(2)
    other.load_assets(str(tmp_path))
    other.check("user")
    assert other.uses is not None
    assert other.uses.day == 4
    assert other.uses.unnumbered.tolist() == ids[2:]
    for name in ("last", "ids", "days", "counts"):
        read, written = (getattr(v.uses, name) for v in (other, vocabulary))
        np.testing.assert_array_equal(read, written)
        assert read.dtype == written.dtype
    other.size = 3
    other.values = pd.Index(ids)
    with pytest.raises(FileError, match="'user': expected 3 different ids"):
        other.check("user")


@pytest.mark.once("torch")
@given(columns, columns, columns)
def test_a_number_is_that_of_the_text(
    known: "pd.Series[Any]", further: "pd.Series[Any]", asked: "pd.Series[Any]"
) -> None:
    """Whatever holds an id, in training, in a further split and when asked."""
    vocabulary = Vocabulary.of(known).grown(Vocabulary.of(further).values)
    numbers = {str(id): i for i, id in enumerate(vocabulary.values, 1)}
    texts = {*texts_of(known), *texts_of(further)} - {None}
    assert numbers.keys() == texts
    expected = [numbers.get(text or "", 0) for text in texts_of(asked)]
    assert vocabulary.encode(asked).tolist() == expected


@pytest.mark.parametrize("unknown", ["guest", None, float("nan"), 10**30, 7.0])
def test_an_unknown_neighbour_changes_no_number(unknown: Any) -> None:
    ids = [2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1]
    vocabulary = Vocabulary.of(pd.Series(ids))
    for column in ([*ids, unknown], [*map(str, ids), unknown]):
        numbers = encode(vocabulary, column, dtype=object)
        assert numbers == [1, 2, 3, 4, 0]


def test_only_what_an_integer_is_written_as_is_it() -> None:
    vocabulary = Vocabulary.of(pd.Series([5, 7, 100000]))
    texts = ["7", "007", " 7", "7.0", "+7", "7e0", "1e5", "100000"]
    assert encode(vocabulary, texts) == [2, 0, 0, 0, 0, 0, 0, 3]


def test_integers_beyond_64_bits_are_held_as_strings(tmp_path: Path) -> None:
    ids = [10**30, 2**64 - 1, 5]
    vocabulary = Vocabulary.of(pd.Series(ids, dtype=object))
    assert vocabulary.values.tolist() == sorted(map(str, ids))
    assert vocabulary.raw_dtype == "string"
    vocabulary.check("user")
    vocabulary.save_assets(str(tmp_path))
    restored = Vocabulary.from_config(vocabulary.get_config())
    restored.load_assets(str(tmp_path))
    assert encode(restored, ids, dtype=object) == [1, 2, 3]
