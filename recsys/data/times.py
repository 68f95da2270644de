"""Times of the rows of a log: numbers, dates, or texts of a date."""

import datetime
import re
from collections.abc import Sequence
from numbers import Number
from numbers import Real
from typing import TypeAlias

import numpy as np
import pandas as pd

from recsys.columns.column_values import fits_a_float
from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.errors.shown import shown

_ISO = re.compile(
    r"\d{4}-?\d\d-?\d\d"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d{1,9})?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?"
)
# With leading zeros, a text of digits says something else than a number.
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
)
_ALIKE = "a time of the same kind as in data row 1"
_MOST_CHARACTERS = 400  # No float has so many digits before its point.
_EXPECTED = (
    "a number, or a date or time as ISO 8601 has it, such as 2026-01-31 or "
    "2026-01-31T12:00:00+01:00 (`time_format` says how to read another form)"
)


def parse_times(
    column: pd.Series, file: object, time_format: str | None = None
) -> pd.Series:
    """Brings a column of times to a form that sorts as the times do.

    Numbers, such as seconds since 1970, stay numbers. Texts are ISO 8601 dates
    and times, unless a format says how to read them: whether `03/04/2026` is
    in March or in April is not guessed.

    Args:
        column: The times; none may be missing, but there may be none at all.
        file: Where they come from, for the error message.
        time_format: What a text looks like, in the directives of `strptime`,
            such as `"%d/%m/%Y %H:%M"`. Defaults to `None`, ISO 8601.

    Returns:
        Numbers or dates, rows numbered from 0. Dates with a time zone are in
        UTC.

    Raises:
        DataError: A time is missing, does not parse, or has a time zone where
            others have none.
        ValueError: The format is none.

    Example:
    >>> days = pd.Series(["27/01/2020", "26/04/2020"], name="day")
    >>> parse_times(days, "log.csv", "%d/%m/%Y").dt.month.tolist()
    [1, 4]
    >>> parse_times(days, "log.csv", "%m/%d/%Y")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: log.csv, column 'day', data row 1 (counted \
from 1): expected a time of the form '%m/%d/%Y'. Received: '27/01/2020'
    """
    column = column.reset_index(drop=True)
    if column.empty:
        return column
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    missing = column.isna()
    if column.dtype == object or isinstance(column.dtype, pd.StringDtype):
        # One by one: to compare a list with a text is an error.
        missing |= column.map(_is_empty).astype(bool)
    refuse(column, missing, "a time in each row", file, "nothing")
    if time_format is not None:
        return _formatted(column, file, time_format)
    kind = pd.api.types.infer_dtype(column)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return _numbers(column, file)
    if kind in ("datetime64", "datetime", "date"):
        return _dates(column, file)
    _refuse_others(column, file)
    numbers = column.map(_is_number).astype(bool)
    if numbers.all():
        too_long = column.map(len) > _MOST_CHARACTERS
        refuse(column, too_long, "a finite time", file)
        return _numbers(pd.to_numeric(column), file)
    dates = column.map(_ISO.fullmatch).notna()
    refuse(column, ~numbers & ~dates, _EXPECTED, file)
    refuse(column, numbers != numbers.iloc[0], _ALIKE, file)
    return _iso_texts(column, file)


def kind_of_times(times: pd.Series) -> str:
    """Tells what the first of several times is, for an error message.

    Times of two kinds cannot be compared.

    Args:
        times: At least one time, as a file has it or as `parse_times` does.

    Returns:
        `"numbers"`, or dates with or without a time zone; an empty text for
        what is none of them.

    Example:
    >>> kind_of_times(pd.Series(["2026-01-31"]))
    'dates without a time zone'
    """
    first = times.iloc[0]
    if isinstance(first, str) and _is_number(first):
        return "numbers"
    if isinstance(first, Number) and not isinstance(first, bool):
        return "numbers"
    if isinstance(first, str):
        is_date, zoned = (
            _ISO.fullmatch(first) is not None,
            _text_has_zone(first),
        )
    else:
        is_date, zoned = isinstance(first, datetime.date), _has_zone(first)
    if not is_date:
        return ""
    return "dates with a time zone" if zoned else "dates without a time zone"


def check_alike(first: pd.Series, times: pd.Series, file: object) -> None:
    """Refuses times of another kind than those before them in a file.

    Args:
        first: The time of the file's first row.
        times: Times of later rows, as the file has them, at least one.
        file: The rows of the file, for the error message.

    Raises:
        DataError: The first of the times is of another kind.
    """
    kinds = [kind_of_times(first), kind_of_times(times)]
    if "" in kinds or kinds[0] == kinds[1]:
        return
    expected = _ALIKE if "numbers" in kinds else _zoned_alike(first)
    refuse(times[:1], pd.Series([True]), expected, file)


# A time of a row: a number of seconds or milliseconds, or a date.
Time: TypeAlias = float | pd.Timestamp

# The first and the last of several rows.
TimeRange: TypeAlias = tuple[Time, Time]


def shown_times(times: Sequence[Time]) -> list[str]:
    """Returns times as texts for a reader, as dates where they are plausible.

    Numbers are taken for seconds, or else milliseconds, since 1970 where that
    puts all of them between 1990 and 2100; others are written as they are.

    Args:
        times: Numbers or dates, as `parse_times` returns them.

    Example:
    >>> shown_times([1_735_689_600, 1_735_689_660.5])
    ['2025-01-01 00:00:00', '2025-01-01 00:01:00']
    >>> shown_times([1_735_689_600_000])
    ['2025-01-01 00:00:00']
    >>> shown_times([7, 20_250_101])
    ['7', '20250101']
    """
    first, end = map(pd.Timestamp, ("1990-01-01", "2100-01-01"))
    for unit in ("s", "ms"):
        per_second = pd.Timedelta(1, "s") / pd.Timedelta(1, unit)
        low, high = (per_second * date.timestamp() for date in (first, end))
        if all(
            isinstance(time, Real) and low <= float(time) < high
            for time in times
        ):
            return [
                str(pd.Timestamp(time, unit=unit).floor("s")) for time in times
            ]
    return [str(time) for time in times]


def _numbers(column: pd.Series, file: object) -> pd.Series:
    if pd.api.types.is_object_dtype(column.dtype):
        fits = column.map(fits_a_float).astype(bool)
        refuse(column, ~fits, "a finite time", file)
        column = column.astype("float64")
    values = column.to_numpy("float64")
    refuse(column, pd.Series(~np.isfinite(values)), "a finite time", file)
    if _end_in_years(column):
        raise DataError.at(
            file,
            "times whose order as values is that of time (`time_format` says "
            "how to read days or months before the year)",
            shown(column.iloc[0]),
            column=column.name,
            row=1,
        )
    return column


def _end_in_years(column: pd.Series) -> bool:
    """Returns whether all numbers read as day, month and year: 26042020."""
    days, years = np.divmod(column.to_numpy("float64"), 10_000)
    first, second = np.divmod(days, 100)
    months = np.minimum(first, second)
    return bool(
        (
            np.isin(years, range(1900, 2100))
            & np.isin(months, range(1, 13))
            & np.isin(np.maximum(first, second), range(1, 32))
        ).all()
    )


def _dates(column: pd.Series, file: object) -> pd.Series:
    if not pd.api.types.is_object_dtype(column.dtype):
        return pd.to_datetime(column, utc=_has_zone(column.iloc[0]))
    zoned = column.map(_has_zone).astype(bool)
    _check_zones(column, zoned, file)
    return pd.to_datetime(column, utc=bool(zoned.iloc[0]))


def _has_zone(time: object) -> bool:
    return getattr(time, "tzinfo", None) is not None


def _refuse_others(column: pd.Series, file: object) -> None:
    """Refuses what is not a text."""
    texts = column.map(_is_text).astype(bool)
    refuse(column, texts != texts.iloc[0], _ALIKE, file)
    refuse(column, ~texts, _EXPECTED, file)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def _text_has_zone(text: str) -> bool:
    match = _ISO.fullmatch(text)
    return match is not None and match[1] is not None


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value


def _iso_texts(column: pd.Series, file: object) -> pd.Series:
    zoned = column.map(_text_has_zone).astype(bool)
    _check_zones(column, zoned, file)
    times = pd.to_datetime(
        column, format="ISO8601", errors="coerce", utc=bool(zoned.iloc[0])
    )
    refuse(column, times.isna(), _EXPECTED, file)
    return times


def _check_zones(
    column: pd.Series, zoned: "pd.Series[bool]", file: object
) -> None:
    """Refuses a time without a zone among others with one, or the reverse."""
    refuse(column, zoned != zoned.iloc[0], _zoned_alike(column), file)


def _zoned_alike(times: pd.Series) -> str:
    having = kind_of_times(times).removeprefix("dates ")
    return f"a time {having}, as in data row 1"


def _formatted(column: pd.Series, file: object, time_format: str) -> pd.Series:
    expected = f"a time of the form {time_format!r}"
    whole = pd.api.types.infer_dtype(column) == "integer"
    texts = column.astype(str) if whole else column
    refuse(column, ~texts.map(_is_text).astype(bool), expected, file)
    try:
        times = pd.to_datetime(
            texts,
            # Pandas takes words such as "mixed" for formats, too.
            format=time_format if "%" in time_format else "%",
            errors="coerce",
            utc="%z" in time_format or "%Z" in time_format,
        )
    except ValueError as error:
        raise ValueError(
            "`time_format` must be a format of `strptime`, such as "
            f"'%d/%m/%Y %H:%M'. Received: time_format={time_format!r} ({error})"
        ) from None
    wrong = times.isna()
    if whole:
        # Without its leading zero, 1022020 could be in January or February.
        wrong |= times.dt.strftime(time_format) != texts
    refuse(column, wrong, expected, file)
    return times
