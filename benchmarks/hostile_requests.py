"""Ordinary requests, and such as no client sends, for `hostile_load.py`."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

FEATURES: dict[str, Any] = {
    "user": "id",
    "item": "id",
    "tags": {"type": "ids", "of": "item"},
    "history": {"type": "sequence", "of": "item"},
    "cover": {"type": "vector", "size": 8},
}
IDS = 1000


def write_model(folder: Path, form: str) -> None:
    """Exports an untrained ranker of lists, a vector and two ids."""
    from recsys import Dataset
    from recsys import Schema
    from recsys import TrainConfig
    from recsys.exporting import export_format
    from recsys.exporting.served_ranker import ServedRanker
    from recsys.models.build import build_ranker
    from recsys.serving.list_lengths import write_list_lengths
    from recsys.training.resolve_config import resolve_config

    schema = Schema("shop", FEATURES, {"click": "binary"})
    rows = pd.DataFrame(
        [
            {**row(), "user": id, "item": id, "click": id % 2}
            for id in range(IDS)
        ]
    )
    for name, kind in {**schema.features, **schema.tasks}.items():
        rows[name] = kind.check(rows[name], "log")
    config = TrainConfig("shop", "unused", gate="top-k", k=2)
    ranker = build_ranker(
        resolve_config(config, schema), Dataset(schema, {"train": rows})
    )
    served = ServedRanker(ranker)
    export_format(form).write(served, folder)
    lengths = {name: one.raw_length for name, one in served.inputs.items()}
    write_list_lengths(folder, lengths)


def row() -> dict[str, Any]:
    return {
        "user": random.randrange(IDS),
        "item": random.randrange(IDS),
        "tags": _ids(8),
        "history": _ids(60),
        "cover": [round(random.random(), 3) for _ in range(8)],
    }


def _ids(most: int) -> list[int]:
    return [random.randrange(IDS) for _ in range(random.randrange(most))]


def ordinary() -> bytes:
    """A few rows with lists of different lengths."""
    return _post({"instances": [row() for _ in range(random.randint(1, 8))]})


def _post(content: Any, path: str = "/v1/models/ranker:predict") -> bytes:
    body = (
        content if isinstance(content, bytes) else json.dumps(content).encode()
    )
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


def _named_twice(count: int) -> bytes:
    names = ",".join(f'"{number:x}":0' for number in range(count))
    return _post(f'{{{names},"z":0,"z":0}}'.encode())


def _for_all_rows(rows: int, width: int) -> bytes:
    return _post({"inputs": {"user": [1] * rows, "tags": [[3] * width]}})


def _instances(**values: Any) -> bytes:
    return _post({"instances": [row(), {**row(), **values}]})


# Complete requests, by what is wrong with them.
WRONG: dict[str, Callable[[], bytes]] = {
    "a name twice": lambda: _named_twice(20_000),
    "a name twice, 2 MB": lambda: _named_twice(200_000),
    "a list for all rows": lambda: _for_all_rows(2000, 100_000),
    "a list for all rows, within bounds": lambda: _for_all_rows(5000, 100),
    "a list in one row": lambda: _post(
        {
            "instances": [
                {"user": 1, "tags": [3] * 100_000},
                *[{"user": 1}] * 1999,
            ]
        }
    ),
    "a vector of another size": lambda: _instances(cover=[0] * 9),
    "an integer of 400 digits": lambda: _instances(user=10**400),
    "an integer of 100,000 digits": lambda: _post(b"9" * 100_000),
    "a number beyond float32": lambda: _instances(cover=[1e300] * 8),
    "brackets": lambda: _post(b"[" * 100_000),
    "lists of lists": lambda: _post({"inputs": {"tags": [[[]] * 200_000]}}),
    "escapes": lambda: _post(b'"' + rb"\u0041" * 100_000 + b'"'),
    "another address": lambda: _post({"instances": []}, "/v1/models/other"),
    "no HTTP": lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}
# Begun and never ended: what comes first, and what comes again and again.
UNENDED: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "half of a head": (b"GET /healthz HTTP/1.1\r\nX-", b""),
    "a head letter by letter": (b"GET /healthz HTTP/1.1\r\nX-", b"y"),
    "a body without end": (
        b"POST /v1/models/ranker:predict HTTP/1.1\r\nHost: x\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\n[\r\n",
    ),
}
