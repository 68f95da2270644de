"""The walks through the code in CONTRIBUTING.md are what a training does."""

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import numpy as np
import pandas as pd
import pytest

from recsys.cli import run as command
from recsys.data import Dataset
from recsys.data import Schema

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

PROJECT = Path(__file__).parents[2]
_ROW = re.compile(r"\| `([\w/]+\.py)` \| `(\w+)` \|")

Steps = list[tuple[str, str]]


def walks() -> Iterator[Steps]:
    """File and function of each step, for each of the tables."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("### Two walks through the code")[2]
    for part in section.partition("\n## ")[0].split("**")[2::2]:
        yield _ROW.findall(part)


class Calls:
    """Notes the functions of the project that are called, in all threads."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PROJECT)):
            file = Path(code.co_filename).relative_to(PROJECT).as_posix()
            self.seen.add((file, code.co_name))

    def __enter__(self) -> "Calls":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """What a training on a Parquet file calls."""
    folder = tmp_path_factory.mktemp("walks")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "user": rng.integers(0, 9, 60),
            "item": rng.integers(0, 9, 60),
            "watch": rng.integers(0, 2, 60).astype(float),
        }
    )
    schema = Schema("films", {"user": "id", "item": "id"}, {"watch": "binary"})
    splits = {"train": rows, "validation": rows[:20], "test": rows[20:40]}
    Dataset(schema, splits).write(folder / "data")
    options = ["--data", str(folder / "data"), "--out", str(folder / "run")]
    options += ["--gate", "comet", "--k", "2", "--num-experts", "4"]
    options += ["--embedding-dim", "4", "--epochs", "1", "--streaming"]
    with Calls() as calls:
        assert command(["train", *options]) == 0
    return calls.seen


def test_the_walks_are_short() -> None:
    to_the_layer, to_the_loss = walks()
    assert 8 <= len(to_the_layer) <= 12
    assert 12 <= len(to_the_loss) <= 20


def test_each_step_is_taken(seen: set[tuple[str, str]]) -> None:
    steps = [step for walk in walks() for step in walk]
    assert [step for step in steps if step not in seen] == []
