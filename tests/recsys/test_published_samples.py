"""Click logs and a census as they are published, from raw files to an export.

Files in the published form are planted; the samples of the real ones run where
they are.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import load
from recsys.data import prepare
from tests.recsys.data.datasets.ali_ccp_files import write_ali_ccp
from tests.recsys.data.datasets.census_files import write_census

# Some of these small splits have no conversion.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.once("tensorflow"),  # Which exports.
]
_COMBINED = ("508", "509", "702", "853")


@pytest.fixture
def samples(real_data: Path) -> Path:
    folder = real_data / "mtl-samples"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


def check_every_stage(data: Path, folder: Path) -> None:
    """Trains, evaluates, predicts and exports."""
    run = folder / "run"
    metrics = recsys.train(
        {
            "data": str(data),
            "out": str(run),
            "gate": "softmax",
            "num_experts": 2,
            "embedding_dim": 4,
            "expert_units": [8],
            "head_units": [4],
            "epochs": 1,
            "batch_size": 16,
        }
    )
    dataset = load(data)
    tasks = dataset.schema.tasks
    received = recsys.evaluate(run, data)
    assert set(received["tasks"]) == set(tasks)
    assert received["loss"] == pytest.approx(metrics["test"]["loss"], rel=1e-4)
    recsys.predict(run, data / "test.parquet", folder / "scored.csv")
    scored = pd.read_csv(folder / "scored.csv")
    assert len(scored) == len(dataset.split("test"))
    for task in tasks:
        assert scored[task].between(0, 1).all()
    inputs = recsys.export(run, folder / "export")
    assert set(inputs) == set(dataset.schema.features)


def test_ali_ccp(tmp_path: Path) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    write_ali_ccp(raw_dir, 60, 20)
    prepare("ali-ccp", raw_dir, tmp_path / "data")
    check_every_stage(tmp_path / "data", tmp_path)


def test_census_income(tmp_path: Path) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    write_census(raw_dir, 60, 40)
    prepare("census-income", raw_dir, tmp_path / "data", weights="instance")
    check_every_stage(tmp_path / "data", tmp_path)


def test_the_sample_of_ali_ccp(samples: Path, tmp_path: Path) -> None:
    """It has one id and its weight in columns of their own."""
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    for split in ("train", "val", "test"):
        rows = pd.read_csv(samples / f"ali_ccp_{split}_sample.csv")
        weighted = {
            field: [
                [] if id == 0 else [f"{id}:{weight}"]
                for id, weight in zip(
                    rows[field], rows[f"D{field}"], strict=True
                )
            ]
            for field in _COMBINED
        }
        rows.assign(**weighted).to_parquet(raw_dir / f"{split}.parquet")
    ids = [name for name in rows if name[:1].isdigit()]
    features: dict[str, Any] = dict.fromkeys(ids, "id")
    features |= {
        field: {"type": "ids", "weighted": True, "pooling": "sum"}
        for field in _COMBINED
    }
    numbers = [n for n in rows if n[:1] == "D" and n[1:] not in _COMBINED]
    schema = {
        "name": "ali-ccp",
        "features": features | dict.fromkeys(numbers, "number"),
        "tasks": {
            "click": "binary",
            "purchase": {"type": "binary", "after": "click"},
        },
        "group": "101",
    }
    (raw_dir / "columns.json").write_text(json.dumps(schema))
    counts = prepare(
        "table",
        raw_dir,
        tmp_path / "data",
        train="train.parquet",
        validation="val.parquet",
        test="test.parquet",
        schema="columns.json",
    )
    assert counts == {"train": 100, "validation": 50, "test": 50}
    check_every_stage(tmp_path / "data", tmp_path)


def test_the_sample_of_the_census(samples: Path, tmp_path: Path) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    for split in ("train", "val", "test"):
        rows = pd.read_csv(samples / f"census_income_{split}_sample.csv")
        rows = rows.rename(columns={"marital status": "never_married"})
        rows.to_csv(raw_dir / f"{split}.csv", index=False)
    tasks = ["income", "never_married"]
    numbers = [name for name in rows if rows[name].dtype == np.float64]
    assert len(rows.columns) == 41
    counts = prepare(
        "table",
        raw_dir,
        tmp_path / "data",
        train="train.csv",
        validation="val.csv",
        test="test.csv",
        ids=[name for name in rows if name not in (*numbers, *tasks)],
        numbers=numbers,
        binary=tasks,
    )
    assert counts == {"train": 80, "validation": 20, "test": 20}
    assert len(load(tmp_path / "data").schema.features) == 39
    check_every_stage(tmp_path / "data", tmp_path)
