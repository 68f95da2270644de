import json
import re
import shutil
import threading
from dataclasses import asdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recsys import FileError
from recsys import RunError
from recsys.tuning.sweep import Plan
from recsys.tuning.sweep import Sweep

pytestmark = pytest.mark.once("torch")

PLAN = Plan(
    "random",
    3,
    {"data": "synthetic", "k": 2, "expert_units": (8,)},
    {"epochs": [1, 2]},
)


def test_goes_on_only_as_it_was_started(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    sweep.start(PLAN)
    sweep.check_same(PLAN)
    for change in (
        {"tuner": "bayesian"},
        {"trials": 4},
        {"fields": {"data": "synthetic", "k": 3}},
        {"space": {"epochs": [1]}},
    ):
        (name,) = change
        with pytest.raises(ValueError, match=f"`{name}` must be what the"):
            sweep.check_same(replace(PLAN, **change))


def test_goes_on_with_what_json_does_not_tell_apart(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    fields = {"data": "synthetic", "learning_rate": 1, "expert_units": [8]}
    sweep.start(replace(PLAN, fields=fields))
    same = {**fields, "learning_rate": 1.0, "expert_units": (8,)}
    sweep.check_same(replace(PLAN, fields=same))


def test_does_not_go_on_with_other_data(data: Path, tmp_path: Path) -> None:
    own = shutil.copytree(data, tmp_path / "data")
    plan = replace(PLAN, fields={"data": str(own)})
    sweep = Sweep(tmp_path / "sweep")
    sweep.start(plan)
    sweep.check_same(plan)
    (own / "train.parquet").write_bytes(b"other rows")
    with pytest.raises(RunError, match=r"changed: train\.parquet$"):
        sweep.check_same(plan)


def test_starts_in_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        Sweep(tmp_path).start(PLAN)


def test_folder_without_a_sweep(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="expected the folder of a sweep"):
        Sweep(tmp_path).check_same(PLAN)


def test_best_trials_are_completed_ones_with_low_losses(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    losses = {"0": 0.3, "1": None, "2": 0.1, "3": 0.2}
    for trial, loss in losses.items():
        metrics = {"loss": loss, "tasks": {}, "experts_per_example": None}
        sweep.log.append(
            {"trial": trial, "status": "failed", "error": "no luck"}
            if loss is None
            else {
                "trial": trial,
                "status": "completed",
                "hyperparameters": {},
                "config": {},
                "validation": metrics,
                "test": metrics,
            }
        )
    assert [record["trial"] for record in sweep.best(2)] == ["2", "3"]
    assert [record["trial"] for record in sweep.best(9)] == ["2", "3", "0"]


def test_worker_waits_for_the_chief(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    chief = threading.Timer(0.3, sweep.start, [PLAN])
    chief.start()
    sweep.wait_for_start()
    assert sweep.plan.is_file()
    chief.join()


def test_a_missing_sweep_is_no_folder_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"a sweep\. Received: no folder"):
        Sweep(tmp_path / "missing").read_plan()
    with pytest.raises(RunError, match=r"Received: a folder without sweep\.js"):
        Sweep(tmp_path).read_plan()


def test_worker_does_not_wait_forever(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    with pytest.raises(RunError, match="a chief that begins the sweep within"):
        sweep.wait_for_start(seconds=0.01)
    assert not sweep.folder.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected an object. Received: []"),
        ({"tuner": "random"}, "expected a value at trials. Received: none"),
        (asdict(PLAN) | {"trials": "3"}, "expected an integer at trials"),
        (asdict(PLAN) | {"seed": 3}, "expected one of the fields tuner, "),
        (asdict(PLAN) | {"fields": []}, "expected an object at fields"),
        (
            asdict(PLAN) | {"fields": {"seed": "new"}},
            "`seed` must be an integer. Received: seed='new'",
        ),
    ],
)
def test_broken_plan(content: Any, message: str, tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    sweep.plan.write_text(json.dumps(content))
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        sweep.read_plan()
    assert str(caught.value).startswith(str(sweep.plan))
