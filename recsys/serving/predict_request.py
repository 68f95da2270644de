"""The body of a predict request, and of its answer.

As in TensorFlow Serving: rows, `{"instances": [{"user": 7}, ...]}`, are
answered by `{"predictions": [...]}`, columns, `{"inputs": {"user": [7, ...]}}`,
by `{"outputs": ...}`. Where there is one input or output, its name may be, and
is, left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from recsys.json_files import parse_json
from recsys.reading import reading
from recsys.serving.json_values import Place
from recsys.serving.json_values import as_array
from recsys.serving.json_values import from_array
from recsys.serving.request_error import RequestError
from recsys.serving.request_error import TooLargeError
from recsys.serving.runner import DEFAULT_SIGNATURE
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from recsys.shown import shown

_BODY = "body"
_KEYS = ("instances", "inputs", "signature_name")
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True)
class PredictRequest:
    """What a request asks of a model.

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
        cls, body: bytes, signatures: Mapping[str, Signature], max_rows: int
    ) -> "PredictRequest":
        """Reads a request.

        Args:
            body: JSON.
            signatures: What the model can be asked.
            max_rows: How many rows are taken.

        Raises:
            RequestError: It is not what the model takes.
        """
        with reading(_BODY, "JSON", RequestError):
            text = body.decode()
        content = parse_json(text, _BODY, RequestError)
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
        if "instances" in content:
            rows = _checked_rows("instances", content["instances"], max_rows)
            columns = _columns_of_rows(content["instances"], specs)
        else:
            given, rows = _of_one_length(
                _named_columns(content["inputs"], specs), max_rows
            )
            columns = {
                key: _column(
                    given.get(key, [None] * rows), spec, _in_column(key)
                )
                for key, spec in specs.items()
            }
        return cls(name, "instances" in content, rows, columns)

    def answer(self, outputs: Arrays) -> bytes:
        """Returns the body of the answer.

        Args:
            outputs: All outputs, arrays `(rows, ...)`.

        Raises:
            ValueError: One of them is not finite: no JSON can say it.
        """
        for name, values in outputs.items():
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                raise ValueError(f"the model's {name!r} is not finite")
        columns = {key: from_array(key, outputs[key]) for key in outputs}
        only = next(iter(columns.values())) if len(columns) == 1 else None
        content: dict[str, Any]
        if not self.by_rows:
            content = {"outputs": columns if only is None else only}
        elif only is None:
            rows = zip(*columns.values(), strict=True)
            content = {
                "predictions": [
                    dict(zip(columns, row, strict=True)) for row in rows
                ]
            }
        else:
            content = {"predictions": only}
        return _ENCODER.encode(content).encode()


def _checked_rows(place: str, values: Any, max_rows: int) -> int:
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
) -> Arrays:
    """All columns, filled up with defaults."""
    if len(specs) == 1:
        (only,) = specs
        instances = [
            row if isinstance(row, dict) and only in row else {only: row}
            for row in instances
        ]
    for index, row in enumerate(instances):
        if not isinstance(row, dict):
            raise RequestError.at(
                f"instances[{index}]",
                "an object with the inputs by name",
                shown(row),
            )
        if row.keys() != specs.keys():
            _check_names(f"instances[{index}]", row, specs)
    return {
        name: _column(
            [row.get(name) for row in instances],
            spec,
            _in_rows(name),
        )
        for name, spec in specs.items()
    }


def _column(values: list[Any], spec: TensorSpec, place: Place) -> Any:
    """A column; what is null in it gets the default, where there is one."""
    if spec.default is None:
        return as_array(values, spec, place)
    given = [index for index, value in enumerate(values) if value is not None]
    if not given:
        return spec.rows(len(values))

    def place_of_given(indices: tuple[int, ...]) -> str:
        return place((given[indices[0]], *indices[1:]))

    checked = as_array([values[row] for row in given], spec, place_of_given)
    if len(given) == len(values):
        return checked
    try:
        # The default of a list has one element, whatever the others have.
        filled = np.broadcast_to(
            spec.default, (len(values), *checked.shape[1:])
        )
    except ValueError:
        raise RequestError.at(
            place((given[0],)),
            f"the shape {spec.default.shape[1:]}, as where it is left out",
            f"{checked.shape[1:]}",
        ) from None
    filled = filled.astype(checked.dtype)  # A copy.
    filled[given] = checked
    return filled


def _named_columns(
    inputs: Any, specs: Mapping[str, TensorSpec]
) -> dict[str, Any]:
    if len(specs) == 1 and not isinstance(inputs, dict):
        inputs = {next(iter(specs)): inputs}
    if not isinstance(inputs, dict):
        raise RequestError.at(
            "inputs", "an object with the inputs by name", shown(inputs)
        )
    _check_names("inputs", inputs, specs)
    return inputs


def _of_one_length(
    columns: Mapping[str, Any], max_rows: int
) -> tuple[dict[str, Any], int]:
    """The columns, one value repeated for all rows, and their length."""
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
    repeated = {
        name: values * rows if counts[name] == 1 else values
        for name, values in columns.items()
    }
    return repeated, rows


def _in_rows(name: str) -> Place:
    return lambda at: f"instances[{at[0]}].{name}" + _subscripts(at[1:])


def _in_column(name: str) -> Place:
    return lambda at: f"inputs.{name}" + _subscripts(at)


def _subscripts(indices: tuple[int, ...]) -> str:
    return "".join(f"[{index}]" for index in indices)


def _check_names(
    place: str, given: Mapping[str, Any], specs: Mapping[str, TensorSpec]
) -> None:
    for name in given:
        if name not in specs:
            raise RequestError.at(
                place, f"inputs of {sorted(specs)}", f"{shown(name)}"
            )
    for name, spec in specs.items():
        if name not in given and spec.default is None:
            raise RequestError.at(
                place, f"the input {name!r}", f"only {sorted(given)}"
            )
