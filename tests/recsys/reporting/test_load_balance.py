import json
from pathlib import Path

import pytest

from recsys.reporting.load_balance import load_balance
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run
from tests.recsys.reporting.run_folders import write_sweep

pytestmark = pytest.mark.once("torch")


def balanced(watch: float, rating: float) -> dict[str, object]:
    return {
        "load_balance_by_task": {"watch": watch, "rating": rating},
        "balanced_experts_by_task": {"watch": 0.5, "rating": 0.25},
    }


def write_balanced_run(
    folder: Path, gate: str, loss: float, watch: float, seed: int
) -> None:
    file = write_run(folder, gate, loss, seed) / "metrics.json"
    metrics = json.loads(file.read_text())
    metrics["test"] |= balanced(watch, 0.8)
    file.write_text(json.dumps(metrics))


def test_runs_stand_with_their_means(tmp_path: Path) -> None:
    write_balanced_run(tmp_path / "a" / "seed-0", "moesart", 0.40, 0.98, 0)
    write_balanced_run(tmp_path / "a" / "seed-1", "moesart", 0.42, 1.00, 1)
    write_balanced_run(tmp_path / "b" / "seed-0", "top-k", 0.45, 0.75, 0)
    section = load_balance(read_trained([tmp_path]))
    assert section is not None
    (table,) = section.tables
    assert table.header == [
        *("model", "runs", "test loss x 100", "watch balance"),
        *("rating balance", "watch balanced experts"),
        "rating balanced experts",
    ]
    assert table.rows == [
        [
            *("a", "2", "41.00 ± 1.00", "99.0 ± 1.0", "80.0 ± 0.0"),
            *("50.0 ± 0.0", "25.0 ± 0.0"),
        ],
        ["b", "1", "45.00", "75.0", "80.0", "50.0", "25.0"],
    ]


def test_of_a_sweep_the_best_trial_stands(tmp_path: Path) -> None:
    write_sweep(tmp_path / "sweep", "top-k", [(0.5, 0.5), (0.3, 0.4)])
    log = tmp_path / "sweep" / "trials.jsonl"
    records = map(json.loads, log.read_text().splitlines())
    lines = [
        json.dumps(record | {"test": record["test"] | balanced(share, 1.0)})
        for record, share in zip(records, (0.5, 0.6), strict=True)
    ]
    log.write_text("".join(f"{line}\n" for line in lines))
    section = load_balance(read_trained([tmp_path / "sweep"]))
    assert section is not None
    assert section.tables[0].rows == [
        ["top-k", "1", "40.00", "60.0", "100.0", "50.0", "25.0"]
    ]


def test_older_runs_say_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "top-k", 0.3)
    assert load_balance(read_trained([tmp_path])) is None
