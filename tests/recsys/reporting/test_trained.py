from pathlib import Path

import pytest

from recsys.errors import RunError
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs
from recsys.reporting.trained import by_setting
from recsys.reporting.trained import count_failed
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run

pytestmark = pytest.mark.once("torch")

SETTING = "synthetic, 8 experts, weights: watch 0.9, rating 0.1"


def test_trials_are_read_from_their_lines(
    swept: list[Trained], two_sweeps: list[Path]
) -> None:
    assert [one.model for one in swept] == ["top-k"] * 4 + ["comet"] * 4
    first = swept[0]
    assert first.searched
    assert first.setting == SETTING
    assert (first.validation_loss, first.test_loss) == (0.50, 0.52)
    assert first.run.folder == two_sweeps[0] / "trials" / "0"
    assert first.scores() == {
        "n/s": 2.0,
        "watch auc": 0.48,
        "rating mse": 1.04,
    }


def test_failed_trials_are_counted_apart(two_sweeps: list[Path]) -> None:
    assert count_failed(two_sweeps) == 1


def test_runs_of_a_comparison_have_the_name_of_their_model(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "alpha 0.9" / "Top-k" / "seed-3", "top-k", 0.4, seed=3)
    write_run(tmp_path / "single", "comet", 0.3)
    (unfinished := tmp_path / "unfinished").mkdir()
    (unfinished / "config.json").write_text("{}")
    models = {one.model: one.test_loss for one in read_trained([tmp_path])}
    assert models == {"Top-k": 0.4, "comet": 0.3}


def test_runs_are_grouped_by_setting_and_model(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "comet", 0.3)
    write_run(tmp_path / "b", "comet", 0.2)
    write_run(tmp_path / "c", "comet", 0.1, num_experts=4)
    grouped = by_setting(read_trained([tmp_path]))
    assert [len(models["comet"]) for models in grouped.values()] == [2, 1]
    best = best_runs(read_trained([tmp_path]))
    assert best[SETTING][0].test_loss == 0.2


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_without_runs_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match=f"{name}: expected a folder of fini"):
        read_trained([tmp_path / name])


def test_a_broken_line_is_named(two_sweeps: list[Path]) -> None:
    file = two_sweeps[1] / "trials.jsonl"
    file.write_text(file.read_text() + "{broken\n")
    with pytest.raises(ValueError, match=r"jsonl, line 5: expected JSON"):
        read_trained(two_sweeps)
