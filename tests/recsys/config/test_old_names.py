"""`structure` and `architecture` as the last release understood them."""

import json
from pathlib import Path
from typing import Any

import pytest

import recsys
from recsys import Comparison
from recsys import TrainConfig
from recsys.cli import run
from recsys.config.old_names import current_fields
from recsys.config.old_names import with_current_names
from recsys.config.presets import PRESETS
from recsys.config.train_config import ARCHITECTURES
from recsys.processes.training_processes import TrainingProcesses
from recsys.runs.run import Run
from recsys.tuning.sweep import Plan
from recsys.tuning.sweep import Sweep
from tests.recsys import fake_trainer

pytestmark = pytest.mark.once("torch")

PLACE = {"data": "synthetic", "out": "run"}
OLD = {"architecture": "movielens", "structure": "moe"}
NEW = {"preset": "movielens", "architecture": "moe"}


def test_no_preset_is_called_like_an_architecture() -> None:
    assert not set(PRESETS) & set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        ({"structure": "moe"}, {"architecture": "moe"}),
        ({"architecture": "digits"}, {"preset": "digits"}),
        ({"architecture": None, "structure": "cgc"}, {"architecture": "cgc"}),
    ],
)
def test_old_names_warn_and_mean_what_they_did(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    expected = TrainConfig(**PLACE, **new)
    with pytest.warns(FutureWarning, match="is an old name: use `"):
        assert TrainConfig(**PLACE, **old) == expected
    with pytest.warns(FutureWarning, match="is an old name: use `"):
        assert TrainConfig.from_mapping(PLACE | old) == expected


def test_a_warning_names_both() -> None:
    with pytest.warns(FutureWarning) as caught:
        with_current_names(OLD)
    assert [str(warning.message) for warning in caught] == [
        "`architecture=movielens` is an old name: use `preset=movielens` from "
        "the next release",
        "`structure=moe` is an old name: use `architecture=moe` from the next "
        "release",
    ]


@pytest.mark.parametrize(
    "both",
    [
        {"architecture": "moe", "structure": "cgc"},
        {"preset": "svhn", "architecture": "digits"},
    ],
)
def test_a_field_under_both_its_names(both: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"must be given once\. Received: "):
        TrainConfig.from_mapping(PLACE | both)


def test_what_is_no_field_s_value_stays() -> None:
    odd = {"architecture": [], "k": 2}
    assert current_fields(odd) == odd


def test_a_run_of_the_last_release_is_read_without_a_warning(
    tmp_path: Path,
) -> None:
    written = PLACE | OLD | {"k": 3, "versions": {}}
    (tmp_path / "config.json").write_text(json.dumps(written))
    config = Run(tmp_path).read_config()
    assert (config.preset, config.architecture) == ("movielens", "moe")


def test_a_training_that_the_last_release_has_begun_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path / "program")
    monkeypatch.setattr("sys.executable", str(program))
    config = TrainConfig("synthetic", str(tmp_path / "run"), **NEW)
    begun = config.to_mapping() | OLD
    del begun["preset"]
    (tmp_path / "run.json").write_text(json.dumps(begun))
    with TrainingProcesses() as processes:
        processes.train(config)
    assert Run(config.out).is_finished


def test_a_sweep_of_the_last_release_is_read(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    plan = {"tuner": "random", "trials": 1, "fields": PLACE | OLD}
    text = json.dumps(plan | {"space": {"structure": ["cgc", "ple"]}})
    sweep.plan.write_text(text)
    assert sweep.read_plan() == Plan(
        "random", 1, PLACE | NEW, {"architecture": ["cgc", "ple"]}
    )
    ended = {"trial": "0", "status": "failed", "error": "no luck"}
    sweep.log.append(ended | {"config": OLD, "hyperparameters": OLD})
    assert sweep.log.read() == [ended | {"config": NEW, "hyperparameters": NEW}]


def test_a_comparison_may_mix_old_and_new_names(tmp_path: Path) -> None:
    with pytest.warns(FutureWarning, match="is an old name: use `"):
        comparison = Comparison(
            models={"a": {"structure": "moe"}, "b": {"architecture": "cgc"}},
            base={
                "data": "synthetic",
                "architecture": "movielens",
                "structure": "mmoe",
            },
        )
    with pytest.warns(FutureWarning, match="use `preset=svhn`"):
        runs = comparison.runs(tmp_path, architecture="svhn")
    assert [run.config.architecture for run in runs] == ["moe", "cgc"]
    assert {run.config.preset for run in runs} == {"svhn"}


def test_a_space_with_old_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path / "program")
    monkeypatch.setattr("sys.executable", str(program))
    file = tmp_path / "space.yaml"
    file.write_text(
        "structure: [moe, mmoe]\narchitecture: [movielens]\n"
        "learning_rate: [0.01]\n"
    )
    place = {"data": "synthetic", "out": str(tmp_path / "sweep")}
    with pytest.warns(FutureWarning) as caught:
        records = recsys.tune(place, trials=2, space=file)
    told = [w for w in caught if w.category is FutureWarning]
    assert len(told) == 2
    drawn = {record["hyperparameters"]["architecture"] for record in records}
    assert drawn == {"moe", "mmoe"}
    presets = {record["config"]["preset"] for record in records}
    assert presets == {"movielens"}


@pytest.mark.filterwarnings("always::FutureWarning")
def test_the_command_line_shows_a_warning_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data are missing, so that nothing is trained."""
    place = ["--data", str(tmp_path / "none"), "--out", str(tmp_path / "run")]
    assert run(["train", *place, "--structure", "moe"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        "warning: `structure=moe` is an old name: use `architecture=moe` from "
        "the next release"
    )
    assert len(lines) == 2  # And the error.


def test_the_help_shows_the_new_names_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run(["train", "--help"])
    text = capsys.readouterr().out
    assert "--architecture" in text
    assert "--preset" in text
    assert "--structure" not in text
