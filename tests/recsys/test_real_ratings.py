"""Books and Jester from the download to a trained model."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recsys.cli import run as recsys
from recsys.data import Dataset
from recsys.data import load
from recsys.files.json_files import read_json


@pytest.mark.slow
@pytest.mark.once("torch")  # Whose features and tasks others train as well.
@pytest.mark.parametrize(
    ("name", "download", "test_rows"),
    [("books", "book-crossing", 5_028), ("jester", "jester", 374_745)],
)
def test_from_the_download_to_a_model(
    real_data: Path, tmp_path: Path, name: str, download: str, test_rows: int
) -> None:
    raw_dir, data = str(real_data / download), str(tmp_path / "data")
    assert recsys(["prepare", name, "--raw-dir", raw_dir, "--out", data]) == 0
    dataset = load(data)
    assert isinstance(dataset, Dataset)
    assert len(dataset.split("test")) == test_rows
    few = {
        split: rows.sample(min(len(rows), 20_000), random_state=0)
        for split, rows in dataset.splits.items()
    }
    replace(dataset, splits=few).write(tmp_path / "few")
    arguments = ["train", "--data", str(tmp_path / "few")]
    arguments += ["--out", str(tmp_path / "run")]
    arguments += ["--gate", "top-k", "--num-experts", "4", "--epochs", "1"]
    arguments += ["--embedding-dim", "8", "--expert-units", "8"]
    arguments += ["--learning-rate", "0.01"]
    assert recsys(arguments) == 0
    metrics = read_json(tmp_path / "run" / "metrics.json")["test"]
    assert metrics["rows"] == len(few["test"])
    assert metrics["tasks"]["watch"]["auc"] > 0.5
    assert np.isfinite(metrics["loss"])
