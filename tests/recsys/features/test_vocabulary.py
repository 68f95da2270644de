from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.features.vocabulary import Vocabulary


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
