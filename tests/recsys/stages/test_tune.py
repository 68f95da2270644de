import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys import RunError
from recsys.run import Run
from tests.recsys import fake_trainer

Settings = Callable[..., dict[str, Any]]
Records = list[dict[str, Any]]

SPACE = {
    "learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"},
    "k": [1, 2],
}

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="starts processes of its own; once is enough",
)


@pytest.fixture
def fields(settings: Settings, tmp_path: Path) -> dict[str, Any]:
    """What all trials of a sweep share; its learning rate is free."""
    fields = settings(tmp_path / "sweep")
    return {name: fields[name] for name in fields if name != "learning_rate"}


def use_fake(
    monkeypatch: pytest.MonkeyPatch, folder: Path, extra: str = ""
) -> None:
    program = fake_trainer.install(folder, extra)
    monkeypatch.setattr("sys.executable", str(program))


def options(fields: dict[str, Any], **more: Any) -> list[str]:
    """The words of a command line, lists as repeated options."""
    return [
        word
        for name, value in {**fields, **more}.items()
        for item in (value if isinstance(value, list) else [value])
        for word in (f"--{name.replace('_', '-')}", str(item))
    ]


def in_order(records: Records) -> Records:
    """What does not depend on the folder and the time of day."""
    kept = ("trial", "status", "hyperparameters", "validation", "test")
    ordered = sorted(records, key=lambda record: record["trial"])
    return [{name: record[name] for name in kept} for record in ordered]


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
        assert record["config"] == run.read_config().to_mapping()
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
    # Published, but for what is given.
    assert (config["patience"], config["epochs"]) == (25, 2)


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


def test_killed_sweep_goes_on_as_an_uninterrupted_one(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(json.dumps(SPACE))
    kill = "if out.name == '2': os.kill(os.getppid(), signal.SIGKILL)"
    program = fake_trainer.install(tmp_path / "killing", kill)
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    killed = subprocess.run(
        [
            *fake_trainer.recsys_command(program),
            "tune",
            *options(fields, trials=5, space=space),
        ],
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    log = tmp_path / "sweep" / "trials.jsonl"
    assert len(log.read_text().splitlines()) == 2
    with log.open("a") as file:
        file.write('{"trial": "2", "sta')
    # The killed process's child may still be writing: it was finishing.
    metrics = tmp_path / "sweep" / "trials" / "2" / "metrics.json"
    while not metrics.is_file():
        time.sleep(0.01)
    metrics.unlink()

    use_fake(monkeypatch, tmp_path / "plain")
    resumed = recsys.tune(fields, 5, space=str(space), resume=True)
    assert fake_trainer.calls(tmp_path / "plain") == ["2 resumed", "3", "4"]
    assert [
        json.loads(line) for line in log.read_text().splitlines()
    ] == resumed
    fields["out"] = str(tmp_path / "whole")
    assert in_order(resumed) == in_order(recsys.tune(fields, 5, space=SPACE))
    assert [record["trial"] for record in resumed] == list("01234")


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
    wait = """
    import time
    started = time.monotonic()
    while len((here / "calls.txt").read_text().split()) < 2:
        assert time.monotonic() < started + 60
        time.sleep(0.01)
    """
    use_fake(monkeypatch, tmp_path, wait)
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
        ({"k": 1}, {"space": {"k": [1, 2]}}, "expected a field to be searched"),
        ({}, {"space": {"k": [2]}}, "expected a field to be searched"),
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
    with pytest.raises(ValueError, match="`fields` must be what the sweep"):
        recsys.tune({**fields, "seed": 3}, 1, space=SPACE, resume=True)


@pytest.mark.slow
def test_lost_training_is_a_failed_trial(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    """Real trainings, one of them with an absurd learning rate."""
    space = {"learning_rate": [0.01, 1e30]}
    records = recsys.tune({**fields, "epochs": 1}, 2, space=space)
    by_rate = {r["hyperparameters"]["learning_rate"]: r for r in records}
    assert by_rate[0.01]["status"] == "completed"
    assert by_rate[0.01]["experts_per_example"] == 2
    assert by_rate[0.01]["config"]["task_weights"]["watch"] == 0.5
    assert by_rate[1e30]["status"] == "failed"
    assert "must stay finite" in by_rate[1e30]["error"]
    assert by_rate[1e30]["validation"] is None

    out = tmp_path / "again"
    results = recsys.rerun(tmp_path / "sweep", out, seeds=1)
    assert results["seed"].tolist() == [1]
    assert (out / "table.md").is_file()
    (model,) = results["model"]
    assert model == f"trial-{by_rate[0.01]['trial']}"


@pytest.mark.slow
@on_tensorflow
def test_killed_training_goes_on_from_its_checkpoint(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    fields |= {"epochs": 500, "patience": 500}
    command = [sys.executable, "-m", "recsys", "tune"]
    command += options(fields, trials=2, gate="comet")
    history = tmp_path / "sweep" / "trials" / "0" / "history.csv"
    process = subprocess.Popen(command)
    while not history.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    before = len(pd.read_csv(history))
    resumed = subprocess.Popen(
        [*command, "--resume"],
        stdout=subprocess.PIPE,
        text=True,
        # Where the tests run in the background, it would be ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while len(pd.read_csv(history)) <= before + 3:
        assert resumed.poll() is None
        time.sleep(0.05)
    resumed.send_signal(signal.SIGINT)
    out, _ = resumed.communicate()
    assert resumed.returncode == 130
    assert "the same command with --resume" in out
    # Of one process after the other, none twice.
    epochs = pd.read_csv(history)["epoch"].tolist()
    assert epochs == list(range(1, len(epochs) + 1))
    assert not (tmp_path / "sweep" / "trials.jsonl").exists()


@pytest.mark.slow
@on_tensorflow
def test_chief_and_two_workers(
    fields: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    # No trial ends before both workers have one.
    wait = """
    import time
    names = here / "workers"
    names.mkdir(exist_ok=True)
    (names / os.environ["KERASTUNER_TUNER_ID"]).touch()
    started = time.monotonic()
    while len(list(names.iterdir())) < 2:
        assert time.monotonic() < started + 300
        time.sleep(0.05)
    """
    program = fake_trainer.install(tmp_path, wait)
    space = tmp_path / "space.yaml"
    space.write_text(json.dumps(SPACE))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    processes = [
        subprocess.Popen(
            [
                *fake_trainer.recsys_command(program),
                "tune",
                *options(fields, trials=4, space=space),
            ],
            env={
                **os.environ,
                "KERASTUNER_TUNER_ID": name,
                "KERASTUNER_ORACLE_IP": "127.0.0.1",
                "KERASTUNER_ORACLE_PORT": str(port),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("chief", "worker-0", "worker-1")
    ]
    try:
        printed = [process.communicate(timeout=600)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert printed[0].count("validation loss") >= 4
    workers = {path.name for path in (tmp_path / "workers").iterdir()}
    assert workers == {"worker-0", "worker-1"}
    log = tmp_path / "sweep" / "trials.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert sorted(record["trial"] for record in records) == list("0123")
    assert sorted(fake_trainer.calls(tmp_path)) == list("0123")
