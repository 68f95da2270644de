"""When the rows of a log were: numbers, dates, or texts that say a date."""

import re
from typing import Any

import numpy as np
import pandas as pd

from recsys.column_values import refuse
from recsys.errors import DataError
from recsys.shown import shown

_ISO = re.compile(
    r"\d{4}-?\d\d-?\d\d"
    r"(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:\.\d{1,9})?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?"
)
# With leading zeros, a text of digits says something else than a number.
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_EXPECTED = (
    "a number, or a date or time as ISO 8601 has it, such as 2026-01-31 or "
    "2026-01-31T12:00:00+01:00 (`time_format` says how to read another form)"
)


def parse_times(
    column: "pd.Series[Any]", file: object, time_format: str | None = None
) -> "pd.Series[Any]":
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
    if column.map(_NUMBER.fullmatch).notna().all():
        return _numbers(pd.to_numeric(column), file)
    return _iso_texts(column, file)


def kind_of_times(times: "pd.Series[Any]") -> str:
    """Tells for an error message what `parse_times` has returned.

    Times of two kinds cannot be compared.

    Args:
        times: At least one time.
    """
    if pd.api.types.is_numeric_dtype(times):
        return "numbers"
    zoned = isinstance(times.dtype, pd.DatetimeTZDtype)
    return "dates with a time zone" if zoned else "dates without a time zone"


def _numbers(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    if pd.api.types.is_object_dtype(column.dtype):
        column = column.astype("float64")
    values = column.to_numpy("float64")
    refuse(column, pd.Series(~np.isfinite(values)), "a finite time", file)
    if _end_in_years(column):
        raise DataError.at(
            file,
            "times that sort as they follow each other (`time_format` says "
            "how to read days or months that come before the year)",
            shown(column.iloc[0]),
            column=column.name,
            row=1,
        )
    return column


def _end_in_years(column: "pd.Series[Any]") -> bool:
    """Whether all numbers read as days and months before a year: 26042020."""
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


def _dates(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    if not pd.api.types.is_object_dtype(column.dtype):
        return pd.to_datetime(column, utc=_has_zone(column.iloc[0]))
    zoned = column.map(_has_zone).astype(bool)
    _check_zones(column, zoned, file)
    return pd.to_datetime(column, utc=bool(zoned.iloc[0]))


def _has_zone(time: Any) -> bool:
    return getattr(time, "tzinfo", None) is not None


def _refuse_others(column: "pd.Series[Any]", file: object) -> None:
    """Refuses what is not a text."""
    texts = column.map(_is_text).astype(bool)
    expected = "a time of the same kind as in data row 1"
    refuse(column, texts != texts.iloc[0], expected, file)
    refuse(column, ~texts, _EXPECTED, file)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_empty(value: object) -> bool:
    return isinstance(value, str) and not value


def _iso_texts(column: "pd.Series[Any]", file: object) -> "pd.Series[Any]":
    matches = column.map(_ISO.fullmatch)
    refuse(column, matches.isna(), _EXPECTED, file)
    zoned = matches.map(lambda match: match[1] is not None).astype(bool)
    _check_zones(column, zoned, file)
    times = pd.to_datetime(
        column, format="ISO8601", errors="coerce", utc=bool(zoned.iloc[0])
    )
    refuse(column, times.isna(), _EXPECTED, file)
    return times


def _check_zones(
    column: "pd.Series[Any]", zoned: "pd.Series[bool]", file: object
) -> None:
    """Refuses a time without a zone among others with one, or the reverse."""
    having = "with" if zoned.iloc[0] else "without"
    expected = f"a time {having} a time zone, as in data row 1"
    refuse(column, zoned != zoned.iloc[0], expected, file)


def _formatted(
    column: "pd.Series[Any]", file: object, time_format: str
) -> "pd.Series[Any]":
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
