"""The body of the answer to a predict request.

As in TensorFlow Serving: rows are answered by `{"predictions": [...]}`, columns
by `{"outputs": ...}`. Where there is one output, its name is left out.
"""

import json

import numpy as np

from recsys.serving.json_values import from_array
from recsys.serving.tensor_spec import Arrays

_ENCODER = json.JSONEncoder(separators=(",", ":"))
# How many rows are written at a time: meanwhile, no other thread runs.
_STEP = 256


def answer(outputs: Arrays, by_rows: bool) -> bytes:
    """Returns the body of an answer.

    Args:
        outputs: All outputs, arrays `(rows, ...)`.
        by_rows: Whether it is a list of rows rather than of columns.

    Raises:
        ValueError: An output is not finite: no JSON can say it.

    Example:
    >>> answer({"watch": np.array([0.5, 0.25])}, by_rows=True)
    b'{"predictions":[0.5,0.25]}'
    """
    for name, values in outputs.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"the model's {name!r} is not finite")
    columns = {key: from_array(key, outputs[key]) for key in outputs}
    only = next(iter(columns.values())) if len(columns) == 1 else None
    if only is not None:
        text = _list_text(only)
    elif by_rows:
        rows = zip(*columns.values(), strict=True)
        text = _list_text(
            [dict(zip(columns, row, strict=True)) for row in rows]
        )
    else:
        parts = [
            f"{_ENCODER.encode(key)}:{_list_text(values)}"
            for key, values in columns.items()
        ]
        text = "{" + ",".join(parts) + "}"
    key = "predictions" if by_rows else "outputs"
    return f'{{"{key}":{text}}}'.encode()


def _list_text(values: list[object]) -> str:
    parts = (
        _ENCODER.encode(values[start : start + _STEP])[1:-1]
        for start in range(0, len(values), _STEP)
    )
    return f"[{','.join(parts)}]"
