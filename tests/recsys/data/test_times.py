import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.data import DataError
from recsys.data.times import parse_times
from recsys.data.times import shown_times

Day = datetime.date


def order(
    values: Any, time_format: str | None = None, dtype: Any = None
) -> list[int]:
    """The positions of the values by time."""
    column = pd.Series(values, name="time", index=[7] * len(values))
    if dtype is not None:
        column = column.astype(dtype)
    times = parse_times(column, "log.csv", time_format)
    assert list(times.index) == list(range(len(values)))
    return times.sort_values(kind="stable").index.tolist()


def refusal(values: Any, time_format: str | None = None) -> str:
    with pytest.raises(DataError) as caught:
        parse_times(pd.Series(values, name="time"), "log.csv", time_format)
    return str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [10, 9, 2**53 + 1],
        [1e9, 9.5, 2e9],
        ["10", "9", "1e3"],
        [10, 9.5, 11],
        [Decimal("10"), Decimal("9.5"), Decimal("11")],
        ["2026-01-10", "2026-01-09", "2026-02-01"],
        ["2026-01-10", "2026-01-09 23:59", "2026-01-10T00:00:00.001"],
        ["20260110", "20260109", "20260201"],
        ["20260110T000000", "20260109T235959", "20260110T000001"],
        ["2026-01-10T00:30:00+02:00", "2026-01-09T22:00:00Z",
         "2026-01-09T22:31:00+00"],
        [Day(2026, 1, 10), Day(2026, 1, 9), Day(2026, 1, 11)],
        pd.to_datetime(["2026-01-10", "2026-01-09", "2026-02-01"]),
        pd.to_datetime(["2026-01-10", "2026-01-09", "2026-02-01"], utc=True),
        ["9999-12-30", "0001-01-01", "9999-12-31"],
    ],
)  # fmt: skip
def test_the_second_of_three_is_the_earliest(values: Any) -> None:
    assert order(values) == [1, 0, 2]


def test_categories_are_read_as_what_they_are() -> None:
    values = ["2026-01-10", "2026-01-09", "2026-01-11"]
    assert order(values, dtype="category") == [1, 0, 2]


@pytest.mark.parametrize(
    ("time_format", "values"),
    [
        ("%d/%m/%Y", ["27/01/2020", "26/01/2020", "26/04/2020"]),
        ("%d/%m/%Y", ["3/4/2020", "27/1/2020", "26/04/2020"]),
        ("%d.%m.%y %H:%M", ["27.01.20 10:00", "27.01.20 9:59",
                            "26.04.20 00:00"]),
        ("%d %b %Y", ["10 Feb 2020", "9 Feb 2020", "1 Mar 2020"]),
        ("%H:%M %z", ["10:00 +0000", "10:00 +0100", "10:00 -0100"]),
        ("%Y%m%d", [20200127, 20200126, 20200426]),
        ("%d%m%Y", [27012020, 26012020, 26042020]),
    ],
)  # fmt: skip
def test_a_format_says_how_to_read(time_format: str, values: Any) -> None:
    assert order(values, time_format) == [1, 0, 2]


@pytest.mark.parametrize(
    "value",
    ["yesterday", "26/04/2020", "2020/04/26", "04-05-2020", "1 Feb 2020",
     "2026-W05", "2026-01", "0930", "01022020", " 2026-01-01", "NaT", "12:30"],
)  # fmt: skip
@pytest.mark.parametrize("row", [1, 3])
def test_a_text_of_another_form_is_refused(value: str, row: int) -> None:
    values = ["2026-01-01"] * 3
    values[row - 1] = value
    message = refusal(values)
    assert message.startswith(
        f"log.csv, column 'time', data row {row} (counted from 1): expected a "
        "number, or a date or time as ISO 8601 has it, such as 2026-01-31"
    )
    assert "`time_format`" in message
    assert message.endswith(f"Received: {value!r}")


@pytest.mark.parametrize(
    ("values", "expected", "row"),
    [
        (["2026-01-01", "2026-02-30"], "a number, or a date or time", 2),
        (["2026-01-01", "2026-01-01T25:00"], "a number, or a date", 2),
        ([1, None], "a time in each row. Received: nothing", 2),
        (["2026-01-01", ""], "a time in each row. Received: nothing", 2),
        ([pd.NaT, pd.Timestamp(0)], "a time in each row", 1),
        ([1.0, np.inf], "a finite time. Received: inf", 2),
        ([np.arange(2), np.arange(3)], "a number, or a date or time", 1),
        ([1, "2026-01-01"], "a time of the same kind as in data row 1", 2),
        (["2026-01-01", Day(2026, 1, 1)], "a time of the same kind", 2),
        ([True, False], "a number, or a date", 1),
        (["2026-01-01T00:00", "2026-01-01T00:00Z"], "a time without a time "
         "zone, as in data row 1", 2),
        (["2026-01-01T00:00Z", "2026-01-01"], "a time with a time zone", 2),
        ([pd.Timestamp(0), pd.Timestamp(0, tz="UTC")], "a time without a", 2),
        ([27012020, 26042020], "times whose order as values is", 1),
        ([1272020.0, 4262020.0], "times whose order", 1),
    ],
)  # fmt: skip
def test_what_cannot_be_sorted_is_refused(
    values: Any, expected: str, row: int
) -> None:
    message = refusal(values)
    assert f"data row {row} (counted from 1): expected {expected}" in message


@pytest.mark.parametrize(
    ("time_format", "value"),
    [
        ("%d/%m/%Y", "2020-01-27"),
        ("%d/%m/%Y", "27/13/2020"),
        ("%d/%m/%Y", "27/01/2020 10:00"),
        ("%d%m%Y", 1022020),
        ("%d/%m/%Y", 27.5),
        ("%d/%m/%Y", Day(2026, 1, 1)),
    ],
)
def test_what_is_not_of_the_format_is_refused(
    time_format: str, value: Any
) -> None:
    assert refusal([value], time_format).startswith(
        "log.csv, column 'time', data row 1 (counted from 1): expected a time "
        f"of the form {time_format!r}. Received: "
    )


@pytest.mark.parametrize("time_format", ["mixed", "ISO8601", "", "%Q", "%d %"])
def test_a_format_that_is_none(time_format: str) -> None:
    column = pd.Series(["2026-01-01"], name="time")
    with pytest.raises(
        ValueError, match=r"^`time_format` must be a format"
    ) as c:
        parse_times(column, "log.csv", time_format)
    assert f"Received: time_format={time_format!r}" in str(c.value)


@settings(deadline=None)
@given(
    st.lists(
        st.datetimes(
            datetime.datetime(1900, 1, 1), datetime.datetime(2099, 12, 31)
        ),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from(
        [
            ("%Y-%m-%dT%H:%M:%S.%f", None),
            ("%Y-%m-%d %H:%M:%S.%f+01:00", None),
            ("%Y%m%dT%H%M%S.%fZ", None),
            ("%d/%m/%Y %H:%M:%S.%f", "%d/%m/%Y %H:%M:%S.%f"),
            ("%f %I:%M:%S %p, %b %d %Y", "%f %I:%M:%S %p, %b %d %Y"),
        ]
    ),
)
def test_any_times_sort_as_they_follow_each_other(
    times: list[datetime.datetime], forms: tuple[str, str | None]
) -> None:
    written, time_format = forms
    texts = [time.strftime(written) for time in times]
    assert order(texts, time_format) == order(times)


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([np.int64(956_703_932)], ["2000-04-25 23:05:32"]),
        ([1_735_689_600.75], ["2025-01-01 00:00:00"]),
        ([1_735_689_600_999], ["2025-01-01 00:00:00"]),
        ([0, 1_735_689_600], ["0", "1735689600"]),  # The first is no date.
        ([20_260_131], ["20260131"]),
        ([pd.Timestamp("2026-01-31 12:00")], ["2026-01-31 12:00:00"]),
    ],
)
def test_plausible_numbers_are_shown_as_dates(
    times: list[Any], shown: list[str]
) -> None:
    assert shown_times(times) == shown
