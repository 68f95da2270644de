from datetime import date
from datetime import datetime
from datetime import time
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.formats.written_values import text_frame
from recsys.data.formats.written_values import written

NOON = datetime(2026, 1, 31, 12)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (2**64 - 1, pa.uint64(), "18446744073709551615"),
        (Decimal("12345678901234567891"), pa.decimal128(20, 0),
         "12345678901234567891"),
        (Decimal("10.1"), pa.decimal128(5, 2), "10.10"),
        (1.0, pa.float64(), "1.0"),
        (1e22, pa.float64(), "1e+22"),
        (0.1, pa.float32(), "0.1"),
        (float("nan"), pa.float64(), None),
        (True, pa.bool_(), "True"),
        ("NaN", pa.string(), "NaN"),
        ("a|b", pa.string_view(), "a|b"),
        (date(2026, 1, 31), pa.date32(), "2026-01-31"),
        (time(12, 30), pa.time32("s"), "12:30:00"),
        (NOON, pa.timestamp("s"), "2026-01-31 12:00:00"),
        (NOON, pa.timestamp("us"), "2026-01-31 12:00:00.000000"),
        (NOON, pa.timestamp("ms", "UTC"), "2026-01-31 12:00:00.000Z"),
        (NOON, pa.timestamp("s", "Europe/Berlin"), "2026-01-31 13:00:00+0100"),
        (timedelta(days=1, seconds=2), pa.duration("ms"), "1 days 00:00:02"),
        (b"\xff\x00", pa.binary(), "/wA="),
        (UUID(int=7).bytes, pa.uuid(), str(UUID(int=7))),
        ([1, None], pa.list_(pa.int8()), "[1, null]"),
        ({"a": "é", "b": [NOON]},
         pa.struct({"a": pa.string(), "b": pa.list_(pa.timestamp("s"))}),
         '{"a": "é", "b": ["2026-01-31T12:00:00"]}'),
        ([("a", b"\xff")], pa.map_(pa.string(), pa.binary()),
         '[["a", "/w=="]]'),
    ],
)  # fmt: skip
def test_a_value_is_written_alike_whatever_is_beside_it(
    value: Any, kind: Any, text: str | None
) -> None:
    for values in ([value], [None, value, value], [value, None]):
        column = pa.chunked_array([pa.array(values, kind)])
        texts = written(column).to_pylist()
        assert texts == [None if one is None else text for one in values]


def test_lists_of_a_text_file_are_lists_of_texts() -> None:
    table = pa.table(
        {
            "ids": pa.array([[2**53 + 1, None], [], None, [7]]),
            "times": pa.array([[0], None, [], [1]], pa.list_(pa.date32())),
            "deep": pa.array([[[1]], None, [], [[2], None]]),
        }
    )
    frame = text_frame(table)
    assert frame["ids"].tolist() == [["9007199254740993", ""], [], None, ["7"]]
    assert frame["times"].tolist() == [["1970-01-01"], None, [], ["1970-01-02"]]
    assert frame["deep"].fillna("").tolist() == [
        "[[1]]",
        "",
        "[]",
        "[[2], null]",
    ]
    assert text_frame(table[1:]).iloc[2].tolist() == frame.iloc[3].tolist()


@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_a_float_is_read_from_its_text(numbers: list[float | None]) -> None:
    texts = written(pa.chunked_array([pa.array(numbers, pa.float64())]))
    assert [text and float(text) for text in texts.to_pylist()] == numbers
