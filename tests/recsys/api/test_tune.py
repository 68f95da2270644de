import json
import shutil
from pathlib import Path
from typing import Any

import keras
import pytest

import recsys
from recsys import RunError
from recsys.runs.run import Run
from tests.recsys import fake_trainer
from tests.recsys.api.sweeps import SPACE
from tests.recsys.api.sweeps import TWO_AT_A_TIME
from tests.recsys.api.sweeps import in_order
from tests.recsys.api.sweeps import use_fake

pytestmark = pytest.mark.once("torch")


def test_each_trial_is_a_line(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    records = recsys.tune(fields, trials=3, space=SPACE)
    lines = (tmp_path / "sweep" / "trials.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == records
    assert [record["trial"] for record in records] == ["0", "1", "2"]
    for record in records:
        assert list(record) == [
            "trial",
            "status",
            "hyperparameters",
            "config",
            "validation",
            "test",
            "experts_per_example",
            "seconds",
            "error",
        ]
        run = Run(tmp_path / "sweep" / "trials" / record["trial"])
        assert record["config"] == run.read_recorded().to_mapping()
        drawn = record["hyperparameters"]
        assert drawn.keys() == SPACE.keys()
        assert {name: record["config"][name] for name in drawn} == drawn
        assert record["config"]["embedding_dim"] == 4
        assert record["config"]["backend"] == keras.backend.backend()
        metrics = json.loads(run.metrics.read_text())
        assert record["validation"] == metrics["validation"]
        assert record["test"] == metrics["test"]
        assert record["experts_per_example"] == drawn["k"]
        assert (record["status"], record["error"]) == ("completed", None)
        assert record["seconds"] > 0


def test_published_space_is_the_default(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    fields |= {"gate": "comet", "gate_options": {"gamma": 2.0}}
    (record,) = recsys.tune(fields, trials=1)
    drawn = record["hyperparameters"]
    assert drawn.keys() == {"learning_rate", "gate_options.entropy_weight"}
    config = record["config"]
    assert config["gate_options"] == {
        "gamma": 2.0,
        "entropy_weight": drawn["gate_options.entropy_weight"],
    }
    # That of data of one's own, but for what is given.
    assert (config["patience"], config["epochs"]) == (3, 1)


def test_paper_names_the_published_space(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DSelect-k's space, for the data and the batches that are given."""
    use_fake(monkeypatch, tmp_path)
    data = shutil.copytree(fields["data"], tmp_path / "movielens-1m")
    schema = json.loads((data / "dataset.json").read_text())
    schema["name"] = "movielens-1m"
    (data / "dataset.json").write_text(json.dumps(schema))
    fields |= {"data": str(data), "gate": "dselect-k", "num_experts": 5}
    for static, factor in (("false", 16), ("true", 1)):
        out = str(tmp_path / static)
        given = {"gate_options": {"static": static}, "batch_size": 16}
        (record,) = recsys.tune(
            {**fields, **given, "out": out}, 1, paper="dselect-k"
        )
        assert record["config"]["optimizer"] == "adagrad"
        options = record["config"]["gate_options"]
        assert options["entropy_weight"] / factor in (0.1, 1.0, 10.0)
        assert options["unreachable"] == "penalty"
        assert options["unreachable_weight"] == factor


def test_a_sweep_has_twenty_trials_unless_told_otherwise(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    assert len(recsys.tune(fields, space=SPACE)) == 20
    # However many there are, processes are few.
    assert len(fake_trainer.processes(tmp_path)) == 1


def test_failed_trials_are_recorded_and_the_sweep_goes_on(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = "if fields['k'] == 1: sys.exit('error: no luck')"
    use_fake(monkeypatch, tmp_path, fail)
    records = recsys.tune(fields, trials=8, space=SPACE)
    failed = [r for r in records if r["status"] == "failed"]
    assert 0 < len(failed) < len(records) == 8
    for record in failed:
        assert record["hyperparameters"]["k"] == 1
        assert "no luck" in record["error"]
        assert record["config"]["k"] == 1
        for name in ("validation", "test", "experts_per_example"):
            assert record[name] is None


def test_interrupted_trial_is_not_recorded(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = "if out.name == '1' and not resumed: sys.exit(130)"
    use_fake(monkeypatch, tmp_path, interrupt)
    with pytest.raises(KeyboardInterrupt):
        recsys.tune(fields, 3, space=SPACE)
    resumed = recsys.tune(fields, 3, space=SPACE, resume=True)
    assert [record["trial"] for record in resumed] == ["0", "1", "2"]
    assert fake_trainer.calls(tmp_path) == ["0", "1", "1 resumed", "2"]


def test_finished_sweep_is_left_as_it_is(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    records = recsys.tune(fields, 2, space=SPACE)
    assert recsys.tune(fields, 2, space=SPACE, resume=True) == records
    assert fake_trainer.calls(tmp_path) == ["0", "1"]


def test_workers_train_at_the_same_time(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path, TWO_AT_A_TIME)
    records = recsys.tune(fields, 4, space=SPACE, workers=2)
    assert {record["status"] for record in records} == {"completed"}
    fields["out"] = str(tmp_path / "alone")
    alone = recsys.tune(fields, 4, space=SPACE)
    assert in_order(records) == in_order(alone)


def test_hyperband_decides_on_the_epochs(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    fields["epochs"] = 3
    records = recsys.tune(fields, 12, "hyperband", SPACE, workers=2)
    epochs = [record["config"]["epochs"] for record in records]
    assert len(epochs) == 12
    assert set(epochs) == {1, 3}
    for record in records:
        drawn = record["hyperparameters"]
        assert drawn["epochs"] == record["config"]["epochs"]


def test_values_that_do_not_fit_together_are_a_failed_trial(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    space = {"num_experts": [8, 4], "k": [2, 8]}
    fields = {name: fields[name] for name in fields if name not in space}
    records = recsys.tune(fields | {"gate": "top-k"}, 9, space=space)
    errors = {
        tuple(record["hyperparameters"].values()): record.get("error")
        for record in records
    }
    unfit = errors.pop((4, 8))
    assert unfit is not None
    assert unfit.startswith("`k` must be at most 4, the number of experts")
    assert errors == {(8, 2): None, (8, 8): None, (4, 2): None}


def test_more_experts_than_any_preset_may_be_searched_for(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    del fields["num_experts"]
    records = recsys.tune(fields | {"k": 20}, 1, space={"num_experts": [32]})
    assert records[0]["status"] == "completed"


def test_search_ends_when_nothing_is_left(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    records = recsys.tune(fields, 50, space={"learning_rate": [0.1, 0.2]})
    drawn = [record["hyperparameters"]["learning_rate"] for record in records]
    assert sorted(drawn) == [0.1, 0.2]


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"trials": 0}, "`trials` must be at least 1"),
        ({}, {"workers": 0}, "`workers` must be at least 1"),
        ({}, {"tuner": "grid"}, "`tuner` must be one of random, bayesian"),
        ({"k": 0}, {}, "`k` must be at least 1"),
        ({}, {"space": {"k": [1, 0]}}, "`k` must be at least 1. Received: k=0"),
        ({}, {"space": {"k": [1, 9]}}, "`k` must"),
        ({}, {"space": {"epochs": [1, "2"]}}, "`epochs` must be an integer"),
        (
            {},
            {"space": {"expert_dropout": {"min": 0.5, "max": 1}}},
            "`expert_dropout` must be below 1",
        ),
        (
            {},
            {"space": {"task_weights": {"click": [0.1, 0.2]}}},
            "`task_weights` must be for the tasks",
        ),
        (
            {"gate": "comet"},
            {"space": {"gate_options": {"gamma": {"min": -1, "max": 1}}}},
            "`gamma` must be",
        ),
        ({"k": 1}, {"space": {"k": [1, 2]}}, "expected a field to search"),
        ({}, {"space": {"k": [2]}}, "expected a field to search"),
        (
            {},
            {"tuner": "hyperband", "space": {**SPACE, "epochs": [1, 2]}},
            "`epochs` must not be searched by hyperband",
        ),
    ],
)
def test_wrong_arguments(
    changes: dict[str, Any],
    arguments: dict[str, Any],
    message: str,
    fields: dict[str, Any],
    tmp_path: Path,
) -> None:
    given = {"trials": 2, "space": SPACE, **arguments}
    if "epochs" in given["space"]:
        fields.pop("epochs")
    with pytest.raises((ValueError, TypeError), match=message):
        recsys.tune({**fields, **changes}, **given)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"paper": "comet"}, "the data set 'tiny': there is none. Received"),
        ({"paper": "comet", "space": SPACE}, "`space` or `paper` must be"),
        (
            {"trials": 1, "tuner": "hyperband", "space": {"k": [2]}},
            "expected a field to search",
        ),
    ],
)
def test_wrong_paper_or_point(
    arguments: dict[str, Any],
    message: str,
    fields: dict[str, Any],
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match=message):
        recsys.tune(fields, **arguments)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.parametrize("tuner", ["random", "bayesian"])
def test_space_of_one_point_is_one_trial(
    tuner: str,
    fields: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As routers are trained on SVHN in the MOESART paper."""
    use_fake(monkeypatch, tmp_path)
    (record,) = recsys.tune(fields, 1, tuner, {"learning_rate": [0.25]})
    assert record["hyperparameters"] == {}
    assert record["config"]["learning_rate"] == 0.25


def test_resumed_sweep_searches_what_it_was_started_with(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A space that has been corrected since does not end a sweep."""
    use_fake(monkeypatch, tmp_path)
    records = recsys.tune(fields, 2, space=SPACE)
    assert recsys.tune(fields, 2, resume=True) == records


def test_file_with_the_space_is_named(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "space.yaml"
    file.write_text("momentum: [0.9]")
    with pytest.raises(ValueError, match=f"{file}: the fields to be searched"):
        recsys.tune(fields, 2, space=file)
    file.write_text("k: [1.5, 2.5]")
    with pytest.raises(TypeError, match=f"{file}: `k` must be an integer"):
        recsys.tune(fields, 2, space=file)


def test_folder_must_be_that_of_the_sweep(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    with pytest.raises(RunError, match="expected the folder of a sweep"):
        recsys.tune(fields, 1, space=SPACE, resume=True)
    recsys.tune(fields, 1, space=SPACE)
    with pytest.raises(RunError, match="`out` must be a new or empty folder"):
        recsys.tune(fields, 1, space=SPACE)
    in_another_order = dict(reversed(fields.items()))
    recsys.tune(in_another_order, 1, space=SPACE, resume=True)
    with pytest.raises(ValueError, match="`fields` must be what the sweep"):
        recsys.tune({**fields, "seed": 3}, 1, space=SPACE, resume=True)


def test_trial_that_is_lost_from_the_log_is_recorded_again(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path)
    records = recsys.tune(fields, trials=3, space=SPACE)
    trained = fake_trainer.calls(tmp_path)
    log = tmp_path / "sweep" / "trials.jsonl"
    log.unlink()
    assert in_order(
        recsys.tune(fields, trials=3, space=SPACE, resume=True)
    ) == in_order(records)
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    again = recsys.tune(fields, trials=3, space=SPACE, resume=True)
    assert in_order(again) == in_order(records)
    assert fake_trainer.calls(tmp_path) == trained
