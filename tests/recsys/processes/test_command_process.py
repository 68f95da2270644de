import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.processes.command_process import CommandProcess
from recsys.runs.run import Run
from tests.recsys import fake_trainer

pytestmark = pytest.mark.once("torch")

Settings = Callable[..., dict[str, Any]]
Start = Callable[[Path], CommandProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that end with the test."""
    started: list[CommandProcess] = []

    def start(log: Path) -> CommandProcess:
        started.append(CommandProcess({}, log))
        return started[-1]

    yield start
    for process in started:
        process.end()
        process.wait()


def test_commands_end_with_their_status_and_what_they_print_in_their_log(
    start: Start, tmp_path: Path
) -> None:
    process = start(tmp_path / "start.log")
    logs = [tmp_path / f"{name}.log" for name in "012"]
    help_words, wrong, again = ["train", "--help"], ["train"], ["tune", "-h"]
    codes = [
        process.run(words, log)
        for words, log in zip([help_words, wrong, again], logs, strict=True)
    ]
    assert codes == [0, 2, 2]
    assert process.commands == 3
    assert process.peak_mib > 10
    assert process.cpu_seconds > 0
    assert process.is_alive
    said = [log.read_text() for log in logs]
    assert "--num-experts" in said[0]
    assert said[1].startswith("error: `data` must be given")
    assert said[2].startswith("error: ")
    assert not (tmp_path / "start.log").read_text()
    process.end()
    process.wait()
    assert not process.is_alive


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_training_ends_as_in_a_process_of_its_own(
    settings: Settings, start: Start, tmp_path: Path
) -> None:
    """The first one of a process is alone; the others left nothing behind."""
    alike = {
        "gate": "comet+",
        "expert_dropout": 0.5,
        "unknown_rate": 0.2,
        "search_epochs": 1,
        "epochs": 2,
    }
    process = start(tmp_path / "start.log")
    for name, changes in {
        "first": alike,
        "other": {"gate": "moesart", "seed": 3},
        "again": alike,
    }.items():
        config = settings(tmp_path / name, **changes)
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
        words = ["train", "--config", str(tmp_path / f"{name}.json")]
        log = tmp_path / f"{name}.log"
        assert process.run(words, log) == 0, log.read_text()
    first, again = (Run(tmp_path / name) for name in ("first", "again"))
    assert first.metrics.read_bytes() == again.metrics.read_bytes()
    assert first.weights.read_bytes() == again.weights.read_bytes()
    histories = [
        pd.read_csv(run.history).drop(columns="seconds")
        for run in (first, again)
    ]
    pd.testing.assert_frame_equal(*histories, check_exact=True)
    for one, other in zip(
        first.load_model().get_weights(),
        again.load_model().get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    assert layers(first) == layers(again)
    assert layers(first) != layers(Run(tmp_path / "other"))


def layers(run: Run) -> list[str]:
    """What stands for layers in the model's file; their names are numbered."""
    with zipfile.ZipFile(run.model) as file:
        text = file.read("config.json").decode()
    return re.findall(r'"name": "[^"]*"', text)


def test_killed_process_says_by_which_signal(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = "os.kill(os.getpid(), signal.SIGKILL)"
    program = fake_trainer.install(tmp_path, kill)
    monkeypatch.setattr("sys.executable", str(program))
    config = {"out": str(tmp_path / "run")}
    (tmp_path / "run.json").write_text(json.dumps(config))
    log = tmp_path / "run.log"
    process = start(log)
    words = ["train", "--config", str(tmp_path / "run.json")]
    assert process.run(words, log) == -signal.SIGKILL
    assert process.run(words, log) == -signal.SIGKILL
    assert not process.is_alive


def test_process_does_not_outlive_its_starter(tmp_path: Path) -> None:
    """Not even in the middle of a command."""
    log = tmp_path / "log"
    code = (
        "import time; from recsys import command_server;"
        "command_server.run = lambda words: print(*words, flush=True) or "
        "time.sleep(600); command_server.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        request = {"arguments": ["train", "--out"], "log": str(log)}
        print(json.dumps(request), file=process.stdin, flush=True)
        while not log.is_file() or log.read_text() != "train --out\n":
            assert process.poll() is None
            time.sleep(0.01)
        process.stdin.close()
        assert process.wait(timeout=60) == 1


def test_ctrl_c_ends_an_idle_process_in_silence(
    tmp_path: Path, interruptible: None
) -> None:
    log = tmp_path / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "recsys.command_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"arguments": ["--help"], "log": os.devnull}
        print(json.dumps(request), file=process.stdin, flush=True)
        assert json.loads(process.stdout.readline())["status"] == 0
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert not log.read_text()
