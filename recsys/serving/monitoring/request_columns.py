"""Requests and their answers as columns of a table, named as in the data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from recsys.errors.reading import reading
from recsys.files.json_files import read_json
from recsys.serving.tensor_spec import Arrays
from recsys.serving.tensor_spec import TensorSpec

# By feature, the name of its input. In a SavedModel, `assets.extra` is for what
# TensorFlow does not read.
INPUTS_FILE = Path("assets.extra", "inputs.json")
# Before the names of all columns that are no features.
SERVED = "served/"

_TYPES = {
    "bool": pa.bool_(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "string": pa.string(),
}


class RequestColumns:
    """Turns the arrays of a model into columns of a log.

    A feature's column has its name and the values of the request: null where
    one is missing, lists without padding. `served/<name>` is an output, or an
    input that is no feature.

    Args:
        inputs: The model's inputs.
        features: By input, the name of its feature.
    """

    def __init__(
        self, inputs: Mapping[str, TensorSpec], features: Mapping[str, str]
    ) -> None:
        self._inputs = inputs
        self._features = features

    @classmethod
    def read(
        cls, folder: Path, inputs: Mapping[str, TensorSpec]
    ) -> "RequestColumns":
        """Reads the names of features, those of the inputs in other models.

        Args:
            folder: Folder of the model.
            inputs: Its inputs.

        Raises:
            FileError: The file of the names is broken.
        """
        file = folder / INPUTS_FILE
        if not file.is_file():
            return cls(inputs, {name: name for name in inputs})
        with reading(file, "the inputs that `recsys export` has named"):
            names = {str(input): str(f) for f, input in read_json(file).items()}
        return cls(inputs, names)

    def table(self, inputs: Arrays, outputs: Arrays) -> pa.Table:
        """Returns the rows of a request.

        Args:
            inputs: By name, arrays `(rows, ...)`.
            outputs: The same.
        """
        columns = {
            self._features.get(name, SERVED + name): _column(
                inputs[name], self._inputs[name].default
            )
            for name in inputs
        }
        for name, values in outputs.items():
            columns[SERVED + name] = _column(values, None)
        return pa.table(columns)


def _column(values: np.ndarray, default: np.ndarray | None) -> pa.Array:
    """An array `(rows,)` or `(rows, length)` as a column."""
    is_text = values.dtype.kind in "OSU"
    kind = pa.string() if is_text else _TYPES[values.dtype.name]
    is_list = values.ndim > 1
    rows = values.tolist()
    # A vector's default has its size; only padding is a single element.
    missing: Any = None
    if default is not None and default.size == 1:
        missing = default.reshape(-1)[0]
        missing = missing.item() if isinstance(missing, np.generic) else missing
    if is_list:
        kept = [
            [_value(item) for item in row if not _same(item, missing)]
            for row in rows
        ]
        for _ in range(values.ndim - 1):
            kind = pa.list_(kind)
        return pa.array(kept, kind)
    return pa.array(
        [None if _same(item, missing) else _value(item) for item in rows], kind
    )


def _same(item: object, missing: object) -> bool:
    # NaN, a missing number, does not equal itself.
    return missing is not None and (
        item == missing or (item != item and missing != missing)
    )


def _value(item: Any) -> Any:
    return item.decode(errors="replace") if isinstance(item, bytes) else item
