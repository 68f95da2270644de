"""JSON values as the arrays that a model takes."""

import base64
import binascii
import math
from collections.abc import Callable
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from recsys.errors.shown import shown
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import ListLength
from recsys.serving.tensor_spec import TensorSpec

# The name of a place for the indices of a value: those of its row and, in
# lists, of its element.
Place = Callable[[tuple[int, ...]], str]

# How many values are converted at a time: meanwhile, no other thread runs.
_STEP = 2**14

_EXPECTED = {
    "bool": "true or false",
    "float32": "a finite number",
    "float64": "a finite number",
    "int32": "an integer of 32 bits",
    "int64": "an integer of 64 bits",
    "string": "a string",
}
_INTEGER: tuple[type, ...] = (int,)
_NUMBER: tuple[type, ...] = (float, int)
_JSON_TYPES = {
    "bool": (bool,),
    "float32": _NUMBER,
    "float64": _NUMBER,
    "int32": _INTEGER,
    "int64": _INTEGER,
}
# NumPy's largest for each first type; what is narrower is checked in it.
_WIDEST = {bool: "bool", int: "int64", float: "float64"}
_RANGES: dict[str, np.iinfo | np.finfo] = {
    "int32": np.iinfo("int32"),
    "int64": np.iinfo("int64"),
    "float32": np.finfo("float32"),
    "float64": np.finfo("float64"),
}
# Least and largest finite value: NumPy works them out at each question.
_BOUNDS = {name: (limits.min, limits.max) for name, limits in _RANGES.items()}


def as_array(
    values: list[Any],
    spec: TensorSpec,
    place: Place,
    room: Callable[[int], None] = lambda width: None,
) -> np.ndarray:
    """Returns a column of a request, checked.

    Lists of an input with a `filler` may differ in length: short ones are
    filled up, and of long ones only what the model looks at is kept. The time
    that is taken grows as the values do, and no step holds up other threads.

    Args:
        values: For each row, a number, text or truth value, or a list of
            them for each further dimension.
        spec: What the input takes.
        place: Names a value for the error message.
        room: Called with the number of elements of each row before memory is
            allocated for them; raises if there are too many.

    Returns:
        An array `(rows, ...)`, of bytes where the input takes texts.

    Raises:
        RequestError: A value is none of what the input takes.

    Example:
    >>> spec = TensorSpec("int64", (None, None))
    >>> as_array([[1, 2], [3, 4]], spec, "ids{}".format).tolist()
    [[1, 2], [3, 4]]
    >>> as_array([[1, 2], [3]], spec, "ids{}".format)
    Traceback (most recent call last):
    ...
    recsys.serving.request_error.RequestError: ids(1,): expected a list of 2, \
as the first one is. Received: [3], a list of 1
    """
    if spec.filler is not None:
        return _filled_up(values, spec, place, room)
    flat, shape = values, [len(values)]
    for size in spec.shape[1:]:
        width = _width(flat, size)
        for index, value in enumerate(flat):
            if not isinstance(value, list) or len(value) != width:
                where = place(_indices(index, shape))
                expected = _a_list(size, width)
                raise RequestError.at(where, expected, _received(value))
        flat = list(chain.from_iterable(flat))
        shape.append(width)
    room(math.prod(shape[1:]))
    checked = _checked(
        flat, spec.dtype, lambda index: place(_indices(index, shape))
    )
    if spec.bounds is not None:
        low, high = spec.bounds
        for index in np.flatnonzero((checked < low) | (checked > high))[:1]:
            where = place(_indices(index, shape))
            expected = f"a number from {low:g} to {high:g}"
            raise RequestError.at(where, expected, shown(flat[index]))
    return checked.reshape(shape)  # (rows,) or (rows, width, ...)


def _filled_up(
    values: list[Any],
    spec: TensorSpec,
    place: Place,
    room: Callable[[int], None],
) -> np.ndarray:
    """Lists of any lengths as an array `(rows, longest)`."""
    for index, value in enumerate(values):
        if not isinstance(value, list):
            raise RequestError.at(place((index,)), "a list", shown(value))
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(lengths)

    def where(index: int) -> str:
        row = int(np.searchsorted(ends, index, side="right"))
        return place((row, index - int(ends[row] - lengths[row])))

    flat = list(chain.from_iterable(values))
    checked = _checked(flat, spec.dtype, where)
    longest = int(lengths.max(initial=0))
    if spec.length is not None and longest > spec.length.most:
        checked, lengths = _cut(checked, lengths, spec.filler, spec.length)
        longest = int(lengths.max(initial=0))
    room(longest)
    filled = np.full((len(values), longest), spec.filler, checked.dtype)
    filled[np.arange(longest) < lengths[:, None]] = checked
    return filled


def _cut(
    values: np.ndarray, lengths: np.ndarray, filler: object, length: ListLength
) -> tuple[np.ndarray, np.ndarray]:
    """Cuts concatenated lists to the elements that a model looks at.

    Args:
        values: Array of the elements of all lists.
        lengths: How many of them each list has, `(rows,)`.
        filler: Element of a list that a model skips.
        length: The part of the rest that it looks at.

    Returns:
        The same of what is kept.
    """
    rows = np.repeat(np.arange(len(lengths)), lengths)
    there = values != filler
    values, rows = values[there], rows[there]
    lengths = np.bincount(rows, minlength=len(lengths))
    first = np.cumsum(lengths) - lengths
    if length.keeps_last:
        first = first + np.maximum(lengths - length.most, 0)
    places = np.arange(len(values)) - first[rows]
    kept = (places >= 0) & (places < length.most)
    return values[kept], np.minimum(lengths, length.most)


def from_array(name: str, values: np.ndarray) -> list[object]:
    """Returns an output as JSON has it, row by row.

    Texts that are not UTF-8, or whose output has a name that ends in
    `_bytes`, are `{"b64": ...}`, as in TensorFlow Serving.

    Args:
        name: The output.
        values: An array.
    """
    if values.dtype != object:
        return list(values.tolist())
    as_text = not name.endswith("_bytes")
    texts = np.empty(values.size, object)
    texts[:] = [_as_text(value, as_text) for value in values.flat]
    return list(texts.reshape(values.shape).tolist())


def _width(values: list[object], size: int | None) -> int:
    """Required length of the lists."""
    if size is not None:
        return size
    return len(values[0]) if values and isinstance(values[0], list) else 0


def _a_list(size: int | None, width: int) -> str:
    if size is None and width:
        return f"a list of {width}, as the first one is"
    return f"a list of {size}" if size is not None else "a list"


def _indices(index: int, shape: list[int]) -> tuple[int, ...]:
    return tuple(int(number) for number in np.unravel_index(index, shape))


def _received(value: object) -> str:
    if not isinstance(value, list):
        return shown(value)
    return f"{shown(value)}, a list of {len(value):,}"


def _checked(
    values: list[object], dtype: str, where: Callable[[int], str]
) -> np.ndarray:
    """An array of values, some at a time; `where` names one for an error."""
    is_text = dtype == "string"
    checked = np.empty(len(values), object if is_text else dtype)
    for start in range(0, len(values), _STEP):
        part = values[start : start + _STEP]
        array, wrong = _as_texts(part) if is_text else _as_numbers(part, dtype)
        if wrong:
            received = shown(part[wrong[0]])
            place = where(start + wrong[0])
            raise RequestError.at(place, _EXPECTED[dtype], received)
        checked[start : start + len(part)] = array
    return checked


def _as_texts(values: list[object]) -> tuple[list[bytes | None], list[int]]:
    """The bytes of texts, and the places of values that are none."""
    texts = [_as_bytes(value) for value in values]
    return texts, [index for index, text in enumerate(texts) if text is None]


def _as_numbers(
    values: list[Any], dtype: str
) -> tuple[np.ndarray | None, list[int]]:
    """The array, and the places of values that cannot be in it."""
    types = _JSON_TYPES[dtype]
    if set(map(type, values)) <= set(types):
        try:
            array = np.array(values, _WIDEST[types[0]])
        except OverflowError:
            pass
        else:
            # NumPy would have refused what is no integer of 64 bits.
            if dtype in ("bool", "int64") or _all_within(array, dtype):
                return array.astype(dtype, copy=False), []
    return None, [
        index
        for index, value in enumerate(values)
        if type(value) not in types or not _within(value, dtype)
    ]


def _all_within(array: np.ndarray, dtype: str) -> bool:
    """Returns whether all values are in the range of a type; NaN is in none."""
    low, high = _BOUNDS[dtype]
    return not array.size or bool(low <= array.min() and array.max() <= high)


def _within(value: float, dtype: str) -> bool:
    if dtype == "bool":
        return True
    # Python compares integers of any size, NumPy those that it can hold.
    low, high = map(type(value), _BOUNDS[dtype])
    return bool(low <= value <= high)


def _as_bytes(value: object) -> bytes | None:
    if isinstance(value, Mapping) and set(value) == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            return None
    return value.encode() if isinstance(value, str) else None


def _as_text(value: str | bytes, as_text: bool) -> str | dict[str, str]:
    if isinstance(value, str):
        value = value.encode()
    if as_text:
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    return {"b64": base64.b64encode(value).decode()}
