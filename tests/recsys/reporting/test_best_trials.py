import json
from pathlib import Path

import pytest

from recsys.reporting.best_trials import best_trials
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run
from tests.recsys.reporting.run_folders import write_sweep

pytestmark = pytest.mark.once("torch")


def with_drawn(folder: Path, drawn: list[dict[str, object]]) -> Path:
    file = folder / "trials.jsonl"
    records = map(json.loads, file.read_text().splitlines())
    lines = [
        json.dumps(record | {"hyperparameters": values}) + "\n"
        for record, values in zip(records, drawn, strict=True)
    ]
    file.write_text("".join(lines))
    return folder


def test_what_was_drawn_for_the_best_trial_of_each_model(
    tmp_path: Path,
) -> None:
    top_k = write_sweep(tmp_path / "a", "top-k", [(0.5, 0.4), (0.4, 0.45)])
    with_drawn(top_k, [{"k": 2}, {"k": 4}])
    comet = write_sweep(tmp_path / "b", "comet", [(0.3, 0.35)])
    drawn = {"learning_rate": 0.00012345, "gate_options.gamma": 10.0}
    with_drawn(comet, [{**drawn, "k": None, "expert_units": [8, 4]}])
    section = best_trials(read_trained([top_k, comet]))
    assert section is not None
    (table,) = section.tables
    assert table.header == [
        *("model", "trial", "validation loss x 100", "test loss x 100"),
        *("k", "learning_rate", "gamma", "expert_units"),
    ]
    assert table.rows == [
        ["top-k", "1", "40.00", "45.00", "4", "", "", ""],
        ["comet", "0", "30.00", "35.00", "", "0.000123", "10", "[8, 4]"],
    ]


def test_without_a_sweep_there_is_none(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "comet", 0.3)
    assert best_trials(read_trained([tmp_path])) is None
