"""Predict requests, compared with a reading of their JSON value by value."""

import base64
import copy
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from recsys.serving.predict_request import PredictRequest
from recsys.serving.request_error import RequestError
from recsys.serving.tensor_spec import Signature
from recsys.serving.tensor_spec import TensorSpec
from tests.fuzz import values
from tests.fuzz.grammars.outcome import outcome

_MOST_ROWS = 6
_SPECS = {
    "user": TensorSpec("int64", (None,), np.array([-(2**63)])),
    "name": TensorSpec("string", (None,)),
    "age": TensorSpec("float32", (None,), np.array([np.nan], np.float32)),
    "small": TensorSpec("int32", (None,), np.array([7], np.int32)),
    "flag": TensorSpec("bool", (None,), np.array([False])),
    "cover": TensorSpec("float64", (None, 2)),
}
_SIGNATURES = {
    "serving_default": Signature(_SPECS, {}),
    "one": Signature({"user": TensorSpec("int64", (None,))}, {}),
}
_DEFAULT = "serving_default"
_OF_DTYPE: dict[str, list[Any]] = {
    "int64": [0, -1, 7, 2**53 + 1, 2**63 - 1, -(2**63), 9007199254740993],
    "int32": [0, 7, -(2**31), 2**31 - 1],
    "float32": [0, 0.5, -1.25, 1e-40, 3e38, 7, 2**100],
    "float64": [0, 0.1, 1e300, -5, 10**300],
    "bool": [True, False],
    "string": ["", "7", "é", " a ", "\u0000", {"b64": "AP8="}, {"b64": ""}],
}
_WRONG: list[Any] = [
    *(True, 1.0, 2**63, -(2**63) - 1, 2**31, 3.5e38, 1e39, 10**400, "7"),
    *([], [1], {}, {"b64": "?"}, {"b64": 3}, {"b64": "", "a": 1}, None, ""),
]


class _RefusedError(Exception):
    pass


def check_request(random: Random, folder: Path) -> tuple[str, str | None]:
    """A body: its inputs are those of its JSON, or it is refused."""
    body = _body(random)
    shown = f"request {body[:300]!r}"
    request, error, problem = outcome(
        lambda: PredictRequest.from_body(body, _SIGNATURES, _MOST_ROWS),
        RequestError,
    )
    if problem:
        return shown, problem
    try:
        rows, wanted = _read(body)
    except _RefusedError as reason:
        problem = f"what is wrong is taken: {reason}"
        return shown, None if error is not None else problem
    if error is not None:
        return shown, f"what is right is refused: {error}"
    if request.rows != rows:
        return shown, f"{request.rows} rows instead of {rows}"
    for name, column in wanted.items():
        received = request.inputs[name]
        if len(received) != rows or not _equal(received, column, name):
            return shown, f"{name} is {received} instead of {column}"
    return shown, None


def _equal(received: Any, wanted: Any, name: str) -> bool:
    if received.dtype == object:
        return bool(received.tolist() == wanted.tolist())
    same_type = received.dtype == wanted.dtype
    floats = received.dtype.kind == "f"
    return same_type and np.array_equal(received, wanted, equal_nan=floats)


def _body(random: Random) -> bytes:
    content = _content(random)
    text = json.dumps(content, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.15:
        place = random.randrange(len(text))
        piece = random.choice(
            ('"user": 1, ', "[", "}", ",", "NaN", "\\ud800", "1e999", "\ufeff")
        )
        text = text[:place] + piece + text[place + random.randrange(2) :]
    return text.encode("utf-8", "surrogatepass")


def _content(random: Random) -> Any:
    signature = random.choice(("serving_default",) * 5 + ("one",))
    specs = _SIGNATURES[signature].inputs
    count = random.choice((1, 1, 2, 3, _MOST_ROWS, _MOST_ROWS + 1))
    rows = [
        {
            name: _value(spec, random)
            for name, spec in specs.items()
            if spec.default is None or random.random() < 0.8
        }
        for _ in range(count)
    ]
    content: dict[str, Any] = {}
    if random.random() < 0.5:
        content["instances"] = rows
    else:
        content["inputs"] = {
            name: [row.get(name) for row in rows]
            for name in specs
            if specs[name].default is None or random.random() < 0.8
        }
        if random.random() < 0.3:  # One for all rows.
            name = random.choice(list(content["inputs"] or ["user"]))
            content["inputs"][name] = [_value(specs[name], random)]
    if signature != _DEFAULT or random.random() < 0.2:
        content["signature_name"] = random.choice((signature, signature, ""))
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        _change(content, random)
    return content


def _value(spec: TensorSpec, random: Random) -> Any:
    pool = _OF_DTYPE[spec.dtype]
    if spec.default is not None and random.random() < 0.1:
        return None
    if len(spec.shape) == 1:
        return random.choice(pool)
    return [random.choice(pool) for _ in range(int(spec.shape[1] or 0))]


def _change(content: Any, random: Random) -> None:
    """Makes one value, or name, at any depth another one."""
    while True:
        keys: list[Any] = (
            list(content)
            if isinstance(content, dict)
            else list(range(len(content)))
        )
        if not keys:
            return
        key = random.choice(keys)
        below = content[key]
        if not isinstance(below, dict | list) or random.random() < 0.3:
            break
        content = below
    what = random.randrange(4)
    if what == 0:
        del content[key]
    elif what == 1 and isinstance(content, dict):
        content[values.text(random)] = content.pop(key)
    else:
        pool = random.choice((_WRONG, _WRONG, values.VALUES))
        # A copy: what stands in the pool is not to be changed in turn.
        content[key] = copy.deepcopy(random.choice(pool))


def _read(body: bytes) -> tuple[int, dict[str, Any]]:
    """Rows and inputs as a reader of no speed has them."""
    content = _parsed(body)
    if not isinstance(content, dict) or content.keys() - {
        *("instances", "inputs", "signature_name")
    }:
        raise _RefusedError("keys")
    if ("instances" in content) == ("inputs" in content):
        raise _RefusedError("instances and inputs")
    name = content.get("signature_name", _DEFAULT)
    name = _DEFAULT if name == "" else name
    if not isinstance(name, str) or name not in _SIGNATURES:
        raise _RefusedError("signature")
    specs = _SIGNATURES[name].inputs
    if "instances" in content:
        rows = _rows(content["instances"], specs)
    else:
        rows = _rows_of_columns(content["inputs"], specs)
    columns = {
        key: [_checked(row.get(key), spec) for row in rows]
        for key, spec in specs.items()
    }
    return len(rows), {
        key: _array(column, specs[key]) for key, column in columns.items()
    }


def _parsed(body: bytes) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise _RefusedError("a name twice")
        return dict(pairs)

    try:
        content = json.loads(body.decode(), object_pairs_hook=once)
        json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise _RefusedError("no JSON") from None
    return content


def _rows(instances: Any, specs: dict[str, TensorSpec]) -> list[Any]:
    _check_count(instances)
    if len(specs) == 1:
        (only,) = specs
        instances = [
            row if isinstance(row, dict) and only in row else {only: row}
            for row in instances
        ]
    for row in instances:
        if not isinstance(row, dict):
            raise _RefusedError("a row that is no object")
        _check_names(row, specs)
    return instances


def _rows_of_columns(inputs: Any, specs: dict[str, TensorSpec]) -> list[Any]:
    if len(specs) == 1 and not isinstance(inputs, dict):
        inputs = {next(iter(specs)): inputs}
    if not isinstance(inputs, dict):
        raise _RefusedError("inputs")
    _check_names(inputs, specs)
    if not inputs:
        raise _RefusedError("no inputs")
    for column in inputs.values():
        _check_count(column)
    count = max(map(len, inputs.values()))
    if any(len(column) not in (1, count) for column in inputs.values()):
        raise _RefusedError("lengths")
    return [
        {
            name: column[0] if len(column) == 1 else column[row]
            for name, column in inputs.items()
        }
        for row in range(count)
    ]


def _check_count(column: Any) -> None:
    if not isinstance(column, list) or not 1 <= len(column) <= _MOST_ROWS:
        raise _RefusedError("rows")


def _check_names(given: Any, specs: dict[str, TensorSpec]) -> None:
    needed = {name for name, spec in specs.items() if spec.default is None}
    if not needed <= given.keys() <= specs.keys():
        raise _RefusedError("names")


def _checked(value: Any, spec: TensorSpec) -> Any:
    if value is None and spec.default is not None:
        return spec.default[0]
    if len(spec.shape) == 1:
        return _scalar(value, spec.dtype)
    if not isinstance(value, list) or len(value) != spec.shape[1]:
        raise _RefusedError("a list")
    return [_scalar(one, spec.dtype) for one in value]


def _scalar(value: Any, dtype: str) -> Any:
    if dtype == "string":
        return _bytes(value)
    kinds: dict[str, tuple[type, ...]] = {"b": (bool,), "i": (int,)}
    kind = np.dtype(dtype).kind
    if type(value) not in kinds.get(kind, (int, float)):
        raise _RefusedError(f"no {dtype}")
    if kind == "i":
        info = np.iinfo(dtype)
        if not int(info.min) <= value <= int(info.max):
            raise _RefusedError("range")
    if kind == "f":
        if type(value) is float and not math.isfinite(value):
            raise _RefusedError("not finite")
        if abs(value) > float(np.finfo(dtype).max):
            raise _RefusedError("range")
    return value


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and [*value] == ["b64"]:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (TypeError, ValueError):
            pass
    raise _RefusedError("no text")


def _array(column: list[Any], spec: TensorSpec) -> Any:
    if spec.dtype == "string":
        array = np.empty(len(column), object)
        array[:] = column
        return array
    return np.array(column, spec.dtype)
