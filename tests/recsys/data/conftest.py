from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest

from recsys.data import Schema
from recsys.data import write_table

FolderWriter = Callable[..., Path]


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a machine look as if 16 MB of its memory were free."""
    free = SimpleNamespace(available=1 << 24)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)


@pytest.fixture
def schema() -> Schema:
    return Schema(
        "films",
        {"user": "id", "age": "number"},
        {"watch": "binary", "rating": "regression"},
    )


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": [3, 1, 2],
            "age": [31.5, None, 18.0],
            "watch": [1.0, 0.0, None],
            "rating": [4.5, None, None],
        }
    )


@pytest.fixture
def write_folder(
    tmp_path: Path, schema: Schema, frame: pd.DataFrame
) -> FolderWriter:
    """Writes a data folder; a split may be given, any other is `frame`."""

    def write(suffix: str = ".csv", **splits: pd.DataFrame) -> Path:
        folder = tmp_path / f"films{suffix}"
        folder.mkdir()
        for name in ("train", "validation", "test"):
            path = folder / f"{name}{suffix}"
            write_table(splits.get(name, frame), path)
        (folder / "dataset.json").write_text(schema.to_json())
        return folder

    return write
