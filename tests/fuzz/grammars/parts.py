"""Splits in parts whose columns differ in type, compared id by id."""

import json
import shutil
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from recsys.data import load
from recsys.data.image_dataset import Images
from recsys.data.streaming.frames import column_parts
from recsys.errors import FileError
from tests.fuzz.grammars.outcome import outcome

_IDS = [0, 1, -7, 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 10**18 + 1]
_LARGE = [2**63, 2**63 + 1, 2**64 - 1, 10**19]
_TEXTS = ["7", "007", " 7", "7.0", "+7", "1e5", "a", "é", "-7", str(2**63)]
_DECLARATION = {
    "name": "parts",
    "features": {"x": "id"},
    "tasks": {"y": "binary"},
}
_TYPES: dict[str, Any] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "uint64": pa.uint64(),
    "decimal": pa.decimal128(38, 0),
    "float64": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "null": pa.null(),
}
_TIMES = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]


def check_parts(random: Random, folder: Path) -> tuple[str, str | None]:
    """Parts of one column of ids: what is read of each is its text."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "train").mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps(_DECLARATION))
    kinds = random.choices(list(_TYPES), k=random.randrange(1, 4))
    parts = [_drawn(kind, random) for kind in kinds]
    if not any(parts):
        parts[0], kinds[0] = [1, 2], "int64"
    for number, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        file = folder / "train" / f"part-{number}.parquet"
        pq.write_table(_table(kind, part, random), file)
    for split in ("validation", "test"):
        table = _table("int64", [1, 2], random)
        pq.write_table(table, folder / f"{split}.parquet")
    streaming = random.random() < 0.5
    shown = f"parts of {kinds}, {parts}, streaming={streaming}"[:600]
    return shown, _problem(folder, parts, streaming)


def _problem(
    folder: Path, parts: list[list[Any]], streaming: bool
) -> str | None:
    def read() -> list[str | None]:
        split = load(folder, streaming=streaming).split("train")
        assert not isinstance(split, Images), "of tables"
        columns = column_parts(split, "x")
        return [_read(one) for column in columns for one in column]

    received, error, problem = outcome(read, FileError)
    if problem:
        return problem
    wanted = [_text(one) for part in parts for one in part]
    rounded = any(
        isinstance(one, float) and not (one % 1 == 0 and abs(one) < 2**53)
        for part in parts
        for one in part
        if one == one
    )
    if error is not None:
        return None if rounded else f"ids are refused: {error}"
    if rounded:
        return "floats that may be rounded are taken"
    if sorted(map(str, received)) != sorted(map(str, wanted)):
        return f"the ids {received} instead of {wanted}"
    return None


def _read(value: Any) -> str | None:
    return None if pd.isna(value) else str(value)


def _text(value: Any) -> str | None:
    """The canonical text of an id; `None` for a missing one."""
    if value is None or value == "" or value != value:
        return None
    if isinstance(value, str):
        return value
    return str(int(value))


def _drawn(kind: str, random: Random) -> list[Any]:
    """Ids of a part, as Python has them; some are missing."""
    pools: dict[str, list[Any]] = {
        "int64": _IDS,
        "int32": [0, 1, -7, 2**31 - 1],
        "uint64": [abs(one) for one in _IDS] + _LARGE,
        "decimal": [Decimal(one) for one in (*_IDS, *_LARGE, 10**30)],
        "float64": [0.0, 7.0, -1.0, 2.0**53 - 1, float("nan")],
        "null": [None],
    }
    pool = pools.get(kind, [*_TEXTS, ""])
    if kind == "float64" and random.random() < 0.2:
        pool = [*pool, 0.5, 2.0**53]
    count = random.choice((0, 1, 2, 4))
    missing = random.random() < 0.3
    return [
        None if missing and random.random() < 0.3 else random.choice(pool)
        for _ in range(count)
    ]


def _table(kind: str, part: list[Any], random: Random) -> Any:
    """With labels, and a column of times that nobody uses."""
    if kind == "dictionary":
        column = pa.array(part, pa.string()).dictionary_encode()
    else:
        column = pa.array(part, _TYPES[kind])
    return pa.table(
        {
            "x": column,
            "y": np.arange(len(part)) % 2,
            "unused": pa.array([0] * len(part), random.choice(_TIMES)),
        }
    )
