from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.progress import Progress

import recsys
from recsys.data import Dataset
from recsys.data import load
from recsys.data.datasets.sequences import sequences
from recsys.data.load import AnyDataset
from recsys.runs.run import Run
from tests.made_once import made_once

ITEMS, LENGTH = 12, 6
LARGE = 2**53 + 1


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Users who go around a circle of items, with a step now and then two.

    Items are texts; those of even number have an attribute of their own.
    """
    return made_once(tmp_path_factory, "circle", _write) / "data"


def _write(folder: Path) -> None:
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = []
    for user in range(60):
        steps = np.append(rng.integers(0, ITEMS), 1 + (rng.random(11) < 0.1))
        places = np.cumsum(steps) % ITEMS
        lines.append(" ".join([f"u{user}", *(f"i{at}" for at in places)]))
    (folder / "log.txt").write_text("\n".join(lines))
    even = ", ".join(f'"i{at}": [{at}]' for at in range(0, ITEMS, 2))
    (folder / "attributes.json").write_text(f"{{{even}}}")
    dataset = sequences(
        folder,
        0,
        Progress(disable=True),
        file="log.txt",
        length=LENGTH,
        attributes="attributes.json",
    )
    dataset.write(folder / "data")


@pytest.fixture(scope="session", params=["texts", "integers"])
def folder(
    request: pytest.FixtureRequest,
    data: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The same users, with texts or integers above 2^53; not to be changed."""
    if request.param == "texts":
        return data
    integers = tmp_path_factory.mktemp("integers") / "data"
    _with_integers(load(data)).write(integers)
    return integers


def _with_integers(dataset: AnyDataset) -> Dataset:
    """The same data with integers above 2^53 for the items and users."""
    assert isinstance(dataset, Dataset), "a table"

    def integer(text: str) -> int:
        return LARGE + int(text[1:])

    def of_frame(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(
            user=rows["user"].map(integer),
            item=rows["item"].map(integer),
            history=rows["history"].map(lambda items: [*map(integer, items)]),
        )

    splits = {name: of_frame(rows) for name, rows in dataset.splits.items()}
    return replace(dataset, splits=splits)


def fields(data: Path, out: Path, **given: Any) -> dict[str, Any]:
    """A configuration that trains in a second."""
    small = {
        "retrieval": True,
        "tower": "transformer",
        "tower_width": 16,
        "tower_blocks": 1,
        "tower_dropout": 0.0,
        "tower_id_dropout": 0.0,
        "tower_learning_rate": 0.02,
        "tower_tokens": 100,
        "tower_epochs": 4,
        "refit": False,
        "num_experts": 2,
        "expert_units": [2],
        "head_units": [2],
        "embedding_dim": 2,
        "metrics_k": 3,
    }
    return {"data": str(data), "out": str(out), **small, **given}


@pytest.fixture(scope="session")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of a tower alone; not to be changed."""
    return Run(
        made_once(
            tmp_path_factory,
            "tower",
            lambda out: recsys.train(fields(data, out)),
        )
    )
