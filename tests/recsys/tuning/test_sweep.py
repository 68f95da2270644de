import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from recsys import RunError
from recsys.tuning.sweep import Plan
from recsys.tuning.sweep import Sweep

PLAN = Plan("random", 3, {"k": 2, "expert_units": (8,)}, {"epochs": [1, 2]})


def test_goes_on_only_as_it_was_started(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    sweep.start(PLAN)
    sweep.check_same(PLAN)
    for change in (
        {"tuner": "bayesian"},
        {"trials": 4},
        {"fields": {"k": 3}},
        {"space": {"epochs": [1]}},
    ):
        (name,) = change
        with pytest.raises(ValueError, match=f"`{name}` must be what the"):
            sweep.check_same(replace(PLAN, **change))


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
    lines = [
        json.dumps(
            {
                "trial": trial,
                "status": "failed" if loss is None else "completed",
                "validation": loss and {"loss": loss},
            }
        )
        for trial, loss in losses.items()
    ]
    sweep.log.file.write_text("\n".join([*lines, ""]))
    assert [record["trial"] for record in sweep.best(2)] == ["2", "3"]
    assert [record["trial"] for record in sweep.best(9)] == ["2", "3", "0"]


def test_worker_waits_for_the_chief(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    chief = threading.Timer(0.3, sweep.start, [PLAN])
    chief.start()
    sweep.wait_for_start()
    assert sweep.plan.is_file()
    chief.join()


def test_worker_does_not_wait_forever(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "sweep")
    with pytest.raises(RunError, match="a chief that begins the sweep within"):
        sweep.wait_for_start(seconds=0.01)
    assert not sweep.folder.exists()
