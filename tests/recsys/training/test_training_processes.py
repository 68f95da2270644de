import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recsys import RunError
from recsys import TrainConfig
from recsys.run import Run
from recsys.training.training_processes import TrainingProcesses
from tests.recsys import fake_trainer


def config(folder: Path) -> TrainConfig:
    return TrainConfig("synthetic", str(folder / "run"))


def test_trains_what_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    processes = TrainingProcesses()
    processes.train(config(tmp_path))
    processes.train(config(tmp_path))
    assert fake_trainer.calls(tmp_path) == ["run"]
    asked = json.loads((tmp_path / "run.json").read_text())
    assert asked == config(tmp_path).to_mapping()


def test_goes_on_with_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    asked = config(tmp_path)
    (tmp_path / "run").mkdir()
    Run(asked.out).config.write_text("{}")
    TrainingProcesses().train(asked)
    assert fake_trainer.calls(tmp_path) == ["run resumed"]


def test_moved_folder_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    TrainingProcesses().train(config(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    TrainingProcesses().train(config(tmp_path / "after"))
    assert fake_trainer.calls(tmp_path) == ["run"]


def test_what_cannot_be_gone_on_with_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(
        tmp_path,
        """
        assert not (out / ".unfinished").exists()
        if len((here / "calls.txt").read_text().split()) == 1:
            (out / "config.json").rename(out / ".unfinished")
            sys.exit(1)
        """,
    )
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(RunError):
        TrainingProcesses().train(config(tmp_path))
    TrainingProcesses().train(config(tmp_path))
    assert fake_trainer.calls(tmp_path) == ["run", "run"]


def test_another_configuration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    processes = TrainingProcesses()
    processes.train(config(tmp_path))
    other = TrainConfig("synthetic", config(tmp_path).out, k=3)
    with pytest.raises(RunError, match="another configuration is asked for"):
        processes.train(other)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            "print('epoch 1'); print('error: no luck', file=sys.stderr); "
            "sys.exit(1)",
            "failed: no luck; see .*run.log",
        ),
        (
            "sys.exit('error: no luck' + chr(10) + 'W0000 finalizing')",
            "failed: no luck; see",
        ),
        ("sys.exit('killed by ' + chr(10) + 'someone')", "failed: someone;"),
        ("sys.exit(3)", "failed: status 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "failed: killed by signal 9"),
    ],
)
def test_failure_says_why(
    lines: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path, lines)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(RunError, match=reason):
        TrainingProcesses().train(config(tmp_path))


def test_interrupted_training_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path, "sys.exit(130)")
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(KeyboardInterrupt):
        TrainingProcesses().train(config(tmp_path))


def test_stop_ends_what_runs_and_starts_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path, fake_trainer.ENDLESS)
    monkeypatch.setattr("sys.executable", str(program))
    processes = TrainingProcesses()
    raised: list[BaseException] = []

    def train() -> None:
        try:
            processes.train(config(tmp_path))
        except KeyboardInterrupt as interrupt:
            raised.append(interrupt)

    thread = threading.Thread(target=train)
    thread.start()
    while not fake_trainer.calls(tmp_path):
        time.sleep(0.01)
    processes.stop()
    thread.join()
    assert raised
    with pytest.raises(KeyboardInterrupt):
        processes.train(TrainConfig("synthetic", str(tmp_path / "other")))
    assert fake_trainer.calls(tmp_path) == ["run"]


def test_cores_are_shared_equally(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
        monkeypatch.delenv(name, raising=False)
    program = fake_trainer.install(
        tmp_path, "print(os.environ['OMP_NUM_THREADS'])"
    )
    monkeypatch.setattr("sys.executable", str(program))
    TrainingProcesses(at_a_time=3).train(config(tmp_path))
    assert (tmp_path / "run.log").read_text() == "2\n"


def test_number_must_be_positive() -> None:
    with pytest.raises(ValueError, match="`at_a_time` must be at least 1"):
        TrainingProcesses(0)


def test_child_process_does_not_outlive_its_starter() -> None:
    code = (
        "import time; from recsys import child_process;"
        "child_process.run = lambda words: print(*words, flush=True) or "
        "time.sleep(600); child_process.main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, "train", "--out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "train --out\n"
        process.stdin.close()
        assert process.wait(timeout=60) == 1
