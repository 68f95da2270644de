import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import RunError
from recsys import Schema


@pytest.mark.slow
def test_run_is_evaluated_as_it_was_in_training(run: Path, data: Path) -> None:
    written = json.loads((run / "metrics.json").read_text())
    for split in ("validation", "test"):
        metrics = recsys.evaluate(run, data, split)
        assert _flat(metrics) == pytest.approx(_flat(written[split]))


@pytest.mark.slow
def test_other_data_are_refused(
    run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    schema = Schema(
        "other", {"user": "id", "film": "id", "age": "id"}, tiny.schema.tasks
    )
    splits = {name: frame.assign(age=1) for name, frame in tiny.splits.items()}
    Dataset(schema, splits).write(tmp_path / "other")
    with pytest.raises(DataError, match=r"'age' of type number.*Received: id"):
        recsys.evaluate(run, tmp_path / "other")


@pytest.mark.slow
def test_unknown_split(run: Path, data: Path) -> None:
    with pytest.raises(DataError, match="'weekend'"):
        recsys.evaluate(run, data, "weekend")


def test_folder_without_a_run(tmp_path: Path, data: Path) -> None:
    with pytest.raises(RunError, match=r"without config\.json"):
        recsys.evaluate(tmp_path, data)


def _flat(metrics: dict[str, Any]) -> dict[str, float]:
    return pd.json_normalize(metrics).iloc[0].to_dict()
