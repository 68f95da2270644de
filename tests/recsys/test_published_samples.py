"""Click logs and a census as they are published, from raw files to an export.

Files in the published form are planted; the samples of the real ones run where
they are. One process trains, evaluates and predicts all of them under PyTorch;
they are exported under TensorFlow.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),  # Which exports.
]
_COMBINED = ("508", "509", "702", "853")
SAMPLES = Path(os.environ.get("RECSYS_DATA", "none")) / "mtl-samples"
# Some of these small splits have no conversion.
STAGES = """
import json, sys, warnings
from pathlib import Path
import recsys
warnings.simplefilter("ignore", UserWarning)
for fields in json.load(sys.stdin):
    run, data = Path(fields["out"]), Path(fields["data"])
    recsys.train(fields)
    received = recsys.evaluate(run, data)
    (run.parent / "evaluated.json").write_text(json.dumps(received))
    scored = run.parent / "scored.csv"
    recsys.predict(run, data / "test.parquet", scored)
"""


def prepare_ali_ccp(raw_dir: Path, data: Path) -> None:
    write_ali_ccp(raw_dir, 60, 20)
    prepare("ali-ccp", raw_dir, data)


def prepare_census(raw_dir: Path, data: Path) -> None:
    write_census(raw_dir, 60, 40)
    prepare("census-income", raw_dir, data, weights="instance")


def prepare_sample_of_ali_ccp(raw_dir: Path, data: Path) -> None:
    """It has one id and its weight in columns of their own."""
    for split in ("train", "val", "test"):
        rows = pd.read_csv(SAMPLES / f"ali_ccp_{split}_sample.csv")
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
        data,
        train="train.parquet",
        validation="val.parquet",
        test="test.parquet",
        schema="columns.json",
    )
    assert counts == {"train": 100, "validation": 50, "test": 50}


def prepare_sample_of_census(raw_dir: Path, data: Path) -> None:
    for split in ("train", "val", "test"):
        rows = pd.read_csv(SAMPLES / f"census_income_{split}_sample.csv")
        rows = rows.rename(columns={"marital status": "never_married"})
        rows.to_csv(raw_dir / f"{split}.csv", index=False)
    tasks = ["income", "never_married"]
    numbers = [name for name in rows if rows[name].dtype == np.float64]
    assert len(rows.columns) == 41
    counts = prepare(
        "table",
        raw_dir,
        data,
        train="train.csv",
        validation="val.csv",
        test="test.csv",
        ids=[name for name in rows if name not in (*numbers, *tasks)],
        numbers=numbers,
        binary=tasks,
    )
    assert counts == {"train": 80, "validation": 20, "test": 20}
    assert len(load(data).schema.features) == 39


PLANTED = {"ali-ccp": prepare_ali_ccp, "census": prepare_census}
REAL = {
    "sample of ali-ccp": prepare_sample_of_ali_ccp,
    "sample of the census": prepare_sample_of_census,
}
PREPARED: dict[str, Callable[[Path, Path], None]] = PLANTED | REAL


@pytest.fixture(scope="module")
def folders(
    warm_program: Callable[[str], Path | None],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """By name, a folder with data, run, evaluation and predictions."""
    folders, settings = {}, []
    for name in PREPARED if SAMPLES.is_dir() else PLANTED:
        folder = folders[name] = tmp_path_factory.mktemp("published")
        (folder / "raw").mkdir()
        PREPARED[name](folder / "raw", folder / "data")
        fields = {
            "data": str(folder / "data"),
            "out": str(folder / "run"),
            "gate": "softmax",
            "num_experts": 2,
            "embedding_dim": 4,
            "expert_units": [8],
            "head_units": [4],
            "epochs": 1,
            "batch_size": 16,
        }
        settings.append(fields)
    subprocess.run(
        [warm_program("torch") or sys.executable, "-c", STAGES],
        input=json.dumps(settings),
        env={**os.environ, "KERAS_BACKEND": "torch"},
        text=True,
        check=True,
    )
    return folders


@pytest.mark.parametrize("name", PREPARED)
def test_every_stage(name: str, folders: dict[str, Path]) -> None:
    if name not in folders:
        pytest.skip(f"{SAMPLES} is not there")
    folder = folders[name]
    dataset = load(folder / "data")
    tasks = dataset.schema.tasks
    run = folder / "run"
    metrics = json.loads((run / "metrics.json").read_text())
    received = json.loads((folder / "evaluated.json").read_text())
    assert set(received["tasks"]) == set(tasks)
    assert received["loss"] == pytest.approx(metrics["test"]["loss"], rel=1e-4)
    scored = pd.read_csv(folder / "scored.csv")
    assert len(scored) == len(dataset.split("test"))
    for task in tasks:
        assert scored[task].between(0, 1).all()
    inputs = recsys.export(run, folder / "export")
    assert set(inputs) == set(dataset.schema.features)
