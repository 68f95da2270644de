from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys.data import Schema
from recsys.data import read_table

# As any backend writes them.
pytestmark = pytest.mark.once("tensorflow")

TASKS = ["y" * 250, "y" * 249 + "z", "Click", "click"]
FEATURES = {"ö" * 200: "id", "age" * 100: "number"}


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    columns: dict[str, Any] = {name: range(40) for name in FEATURES}
    columns |= {task: [0, 1] * 20 for task in TASKS}
    schema = Schema("long", FEATURES, dict.fromkeys(TASKS, "binary"))
    rows = pd.DataFrame(columns)
    folder = tmp_path_factory.mktemp("data") / ("f" * 250)
    recsys.dataset_from_table(rows, schema).write(folder)
    return folder


@pytest.mark.slow
@pytest.mark.draws
def test_a_task_with_a_long_name_is_trained_drawn_and_exported(
    long_names: Path,
    settings: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    run = tmp_path / ("r" * 250)
    recsys.train(settings(run, data=str(long_names), epochs=1))
    files = {file.name for file in (run / "plots").glob("calibration_*")}
    assert len(files) == len(TASKS)
    assert "calibration_Click.png" in files
    assert len({file.lower() for file in files}) == len(TASKS)
    recsys.explain(run, long_names, repeats=1)
    recsys.export(run, tmp_path / "served")
    assert (tmp_path / "served" / "1").is_dir()
    out = tmp_path / ("p" * 248 + ".csv.gz")
    recsys.predict(run, long_names / "test.parquet", out)
    assert [*read_table(out)][: len(FEATURES)] == [*FEATURES]
