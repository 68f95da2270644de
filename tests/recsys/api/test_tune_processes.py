import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import keras
import pandas as pd
import pytest

import recsys
from recsys.cli import run
from tests.recsys import fake_trainer
from tests.recsys.api.interruptions import interrupt_when
from tests.recsys.api.sweeps import SPACE
from tests.recsys.api.sweeps import in_order
from tests.recsys.api.sweeps import use_fake
from tests.recsys.processes.commands_here import PROCESS
from tests.recsys.processes.commands_here import CommandsHere

once = pytest.mark.once("torch")  # Processes of its own; it starts first.
# Where no model is trained: it starts in half the time.
once_without_training = pytest.mark.once("jax")


def options(fields: dict[str, Any], **more: Any) -> list[str]:
    """The words of a command line, lists as repeated options."""
    return [
        word
        for name, value in {**fields, **more}.items()
        for item in (value if isinstance(value, list) else [value])
        for word in (f"--{name.replace('_', '-')}", str(item))
    ]


@pytest.mark.slow
@once_without_training
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


@pytest.mark.slow
@once
def test_lost_training_is_a_failed_trial(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real trainings, one of them with an absurd learning rate."""
    monkeypatch.setattr(PROCESS, CommandsHere)
    space = {"learning_rate": [0.01, 4e9]}
    records = recsys.tune({**fields, "epochs": 1}, 2, space=space)
    by_rate = {r["hyperparameters"]["learning_rate"]: r for r in records}
    assert by_rate[0.01]["status"] == "completed"
    assert by_rate[0.01]["experts_per_example"] == 2
    assert by_rate[0.01]["config"]["task_weights"]["watch"] == 0.5
    assert by_rate[4e9]["status"] == "failed"
    assert "must stay finite" in by_rate[4e9]["error"]
    assert by_rate[4e9]["validation"] is None

    out = tmp_path / "again"
    results = recsys.rerun(tmp_path / "sweep", out, seeds=1)
    assert results["seed"].tolist() == [1]
    assert (out / "table.md").is_file()
    (model,) = results["model"]
    assert model == f"trial-{by_rate[0.01]['trial']}"


@pytest.mark.slow
@once
def test_killed_training_goes_on_from_its_checkpoint(
    fields: dict[str, Any],
    tmp_path: Path,
    interruptible: None,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    fields |= {"epochs": 500, "patience": 500}
    words = ["tune", *options(fields, trials=2, gate="comet")]
    history = tmp_path / "sweep" / "trials" / "0" / "history.csv"
    process = subprocess.Popen([sys.executable, "-m", "recsys", *words])
    while not history.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    request.getfixturevalue("warm_python")  # For what goes on with it.
    before = len(pd.read_csv(history))
    interrupt_when(lambda: len(pd.read_csv(history)) > before + 3)
    assert run([*words, "--resume"]) == 130
    assert "the same command with --resume" in capfd.readouterr().out
    # Of one process after the other, none twice.
    epochs = pd.read_csv(history)["epoch"].tolist()
    assert epochs == list(range(1, len(epochs) + 1))
    assert not (tmp_path / "sweep" / "trials.jsonl").exists()


@pytest.mark.slow
@once_without_training
@pytest.mark.usefixtures("warm_python")
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
