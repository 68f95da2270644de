"""The body of a predict request.

As in TensorFlow Serving: rows, `{"instances": [{"user": 7}, ...]}`, or columns,
`{"inputs": {"user": [7, ...]}}`. Where there is one input, its name may be left
out. A model with an input `budget` takes it for all rows of a request as well:
`{"budget": 1, "instances": [...]}`.
"""

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.files.json_files import AT_ONCE
from recsys.files.json_files import STEPWISE
from recsys.files.json_files import JsonObject
from recsys.files.json_files import parse_json
from recsys.serving.budget_range import BUDGET
from recsys.serving.json_values import Place
from recsys.serving.json_values import as_array
from recsys.serving.predict_answer import answer
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec

_BODY = "body"
_KEYS = ("instances", "inputs", "signature_name", BUDGET)
# Commas and brackets of a text up to which it is read at once: meanwhile, no
# other thread runs.
_SIGNS_AT_ONCE = 10_000


@dataclass(frozen=True)
class PredictRequest:
    """A request to a model.

    Attributes:
        signature: Name of the signature.
        by_rows: Whether it has come, and is answered, row by row.
        rows: How many rows it has.
        inputs: All inputs of the signature.
    """

    signature: str
    by_rows: bool
    rows: int
    inputs: Arrays

    @classmethod
    def from_body(
        cls,
        body: bytes,
        signatures: Mapping[str, Signature],
        max_rows: int,
        max_values: int = 2**63,
    ) -> "PredictRequest":
        """Reads a request.

        Args:
            body: JSON.
            signatures: What the model can be asked.
            max_rows: How many rows are taken.
            max_values: How many values of inputs are taken: the rows times
                the width of each input that is given in one of them.

        Raises:
            RequestError: It is not what the model takes.
        """
        content = _content(body, max_rows, max_values)
        if not isinstance(content, dict):
            raise RequestError.at(_BODY, "an object", shown(content))
        for key in content:
            if key not in _KEYS:
                raise RequestError.at(_BODY, f"keys of {_KEYS}", shown(key))
        if ("instances" in content) == ("inputs" in content):
            both = "both" if "inputs" in content else "neither"
            raise RequestError.at(_BODY, "either `instances` or `inputs`", both)
        name = content.get("signature_name", DEFAULT_SIGNATURE)
        name = DEFAULT_SIGNATURE if name == "" else name
        if not isinstance(name, str) or name not in signatures:
            expected = f"one of {sorted(signatures)}"
            raise RequestError.at("signature_name", expected, shown(name))
        specs = signatures[name].inputs
        place: Callable[[str], Place]
        if "instances" in content:
            rows = _checked_rows("instances", content["instances"], max_rows)
            values_of = _columns_of_rows(content["instances"], specs)
            place = _in_rows
        else:
            values_of = _named_columns(content["inputs"], specs)
            rows = _checked_lengths(values_of, max_rows)
            place = _in_column
        if BUDGET in content:
            _check_budget(values_of, specs)
            values_of = {**values_of, BUDGET: [content[BUDGET]]}
            place = _place_of_budget(place)
        room = _Room(rows, max_values)
        columns = {
            key: _column(values_of[key], spec, place(key), room.of(key))
            if key in values_of
            else spec.rows(rows)
            for key, spec in specs.items()
        }
        return cls(
            name,
            "instances" in content,
            rows,
            {key: _for_all(columns[key], rows) for key in columns},
        )

    @property
    def num_values(self) -> int:
        """Number of values of its inputs, defaults included."""
        return sum(int(values.size) for values in self.inputs.values())

    def answer(self, outputs: Arrays) -> bytes:
        """Returns the body of the answer.

        Args:
            outputs: All outputs, arrays `(rows, ...)`.

        Raises:
            ValueError: One of them is not finite: no JSON can say it.
        """
        return answer(outputs, self.by_rows)


def _check_budget(
    columns: Mapping[str, object], specs: Mapping[str, TensorSpec]
) -> None:
    if BUDGET not in specs:
        raise RequestError.at(
            BUDGET,
            "no such key: the model has no input of this name",
            "one",
        )
    if BUDGET in columns:
        raise RequestError.at(
            BUDGET, "either one of the request or of its rows", "both"
        )


def _place_of_budget(place: Callable[[str], Place]) -> Callable[[str], Place]:
    """Where a value stands, if the budget is one for all rows."""
    return lambda name: (lambda at: BUDGET) if name == BUDGET else place(name)


class _Room:
    """Limit on the values of a request.

    Args:
        rows: How many rows it has.
        most: The rows times the width of all inputs, at most.
    """

    def __init__(self, rows: int, most: int) -> None:
        self._rows = rows
        self._most = most
        self._taken = 0

    def of(self, name: str) -> Callable[[int], None]:
        """Returns what takes the room of an input by the width of a row."""

        def take(width: int) -> None:
            self._taken += self._rows * width
            if self._taken > self._most:
                raise TooLargeError.at(
                    name,
                    f"at most {self._most:,} values in a request: its rows "
                    "times the width of each input",
                    f"{self._taken:,} with {self._rows:,} rows of {width:,}",
                )

        return take


def _content(body: bytes, max_rows: int, max_values: int) -> Any:
    """Parses a body, unless it has more values than any request can."""
    with reading(_BODY, "JSON", RequestError):
        text = body.decode()
    signs = sum(map(text.count, ",[{"))
    # There is a comma for each value, and brackets for a row and its lists.
    most = 2 * max_values + 16 * max_rows
    if signs > most:
        raise TooLargeError.at(
            _BODY, f"at most {most:,} commas and brackets", f"{signs:,}"
        )
    decoder = AT_ONCE if signs <= _SIGNS_AT_ONCE else STEPWISE
    return parse_json(text, _BODY, RequestError, decoder=decoder)


def _checked_rows(place: str, values: object, max_rows: int) -> int:
    if not isinstance(values, list):
        raise RequestError.at(place, "a list", shown(values))
    if not values:
        raise RequestError.at(place, "at least one row", "none")
    if len(values) > max_rows:
        raise TooLargeError.at(
            place, f"at most {max_rows:,} rows", f"{len(values):,}"
        )
    return len(values)


def _columns_of_rows(
    instances: list[Any], specs: Mapping[str, TensorSpec]
) -> dict[str, list[object]]:
    """The inputs that some row has; null in the rows that have them not."""
    if len(specs) == 1:
        (only,) = specs
        instances = [
            row if isinstance(row, dict) and only in row else {only: row}
            for row in instances
        ]
    needed = _without_default(specs)
    there: dict[str, None] = {}
    for index, row in enumerate(instances):
        if not isinstance(row, dict):
            raise RequestError.at(
                f"instances[{index}]",
                "an object with the inputs by name",
                shown(row),
            )
        if not there or row.keys() != there.keys():
            _check_names(f"instances[{index}]", row, specs, needed)
            there.update(dict.fromkeys(row))
    return {name: [row.get(name) for row in instances] for name in there}


def _column(
    values: list[object],
    spec: TensorSpec,
    place: Place,
    room: Callable[[int], None],
) -> np.ndarray:
    """A column; what is null in it gets the default, where there is one."""
    if spec.default is None:
        return as_array(values, spec, place, room)
    present = [index for index, value in enumerate(values) if value is not None]
    if not present:
        return spec.rows(len(values))

    def place_of_present(indices: tuple[int, ...]) -> str:
        return place((present[indices[0]], *indices[1:]))

    checked = as_array(
        [values[row] for row in present], spec, place_of_present, room
    )
    if len(present) == len(values):
        return checked
    try:
        # The default of a list has one element, whatever the others have.
        filled = np.broadcast_to(
            spec.default, (len(values), *checked.shape[1:])
        )
    except ValueError:
        raise RequestError.at(
            place((present[0],)),
            f"the shape {spec.default.shape[1:]}, as of its default",
            f"{checked.shape[1:]}",
        ) from None
    filled = filled.astype(checked.dtype)  # A copy.
    filled[present] = checked
    return filled


def _for_all(column: np.ndarray, rows: int) -> np.ndarray:
    """A column whose one row is that of all; it takes no memory for them."""
    if len(column) == rows:
        return column
    return np.broadcast_to(column, (rows, *column.shape[1:]))


def _named_columns(
    inputs: object, specs: Mapping[str, TensorSpec]
) -> JsonObject:
    if len(specs) == 1 and not isinstance(inputs, dict):
        inputs = {next(iter(specs)): inputs}
    if not isinstance(inputs, dict):
        raise RequestError.at(
            "inputs", "an object with the inputs by name", shown(inputs)
        )
    _check_names("inputs", inputs, specs, _without_default(specs))
    return inputs


def _checked_lengths(columns: Mapping[str, object], max_rows: int) -> int:
    """Number of rows; a column has one value for each, or one for all."""
    if not columns:
        raise RequestError.at("inputs", "at least one input", "none")
    counts = {
        name: _checked_rows(f"inputs.{name}", values, max_rows)
        for name, values in columns.items()
    }
    rows = max(counts.values())
    for name, count in counts.items():
        if count not in (1, rows):
            raise RequestError.at(
                f"inputs.{name}",
                f"{rows} rows, as in the others, or one for all",
                f"{count}",
            )
    return rows


def _in_rows(name: str) -> Place:
    return lambda at: f"instances[{at[0]}].{name}" + _subscripts(at[1:])


def _in_column(name: str) -> Place:
    return lambda at: f"inputs.{name}" + _subscripts(at)


def _subscripts(indices: tuple[int, ...]) -> str:
    return "".join(f"[{index}]" for index in indices)


def _without_default(specs: Mapping[str, TensorSpec]) -> list[str]:
    return [name for name, spec in specs.items() if spec.default is None]


def _check_names(
    place: str,
    names: Mapping[str, object],
    specs: Mapping[str, TensorSpec],
    needed: list[str],
) -> None:
    for name in names:
        if name not in specs:
            raise RequestError.at(
                place, f"inputs of {sorted(specs)}", f"{shown(name)}"
            )
    for name in needed:
        if name not in names:
            raise RequestError.at(
                place, f"the input {name!r}", f"only {sorted(names)}"
            )
