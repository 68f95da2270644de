import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from recsys import RunError
from recsys import TrainConfig
from recsys.files.output_lock import sole_writer
from recsys.processes.training_processes import TrainingProcesses
from recsys.runs.run import Run
from tests.recsys import fake_trainer

pytestmark = pytest.mark.once("torch")


def config(folder: Path, name: str = "run", **more: Any) -> TrainConfig:
    return TrainConfig("synthetic", str(folder / name), **more)


def train(*asked: TrainConfig, **options: Any) -> None:
    with TrainingProcesses(**options) as processes:
        for one in asked:
            processes.train(one)


def test_trains_what_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    train(config(tmp_path), config(tmp_path))
    assert fake_trainer.calls(tmp_path) == ["run"]
    asked = json.loads((tmp_path / "run.json").read_text())
    assert asked == config(tmp_path).to_mapping()


def test_finished_run_is_of_the_data_as_they_are(
    data: Path, run: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(data, tmp_path / "data")
    asked = TrainConfig(str(source), str(tmp_path / "run"))
    shutil.copytree(run, asked.out)
    train(asked)
    (source / "test.parquet").write_bytes(b"other rows")
    with pytest.raises(RunError, match=r"changed: test\.parquet$"):
        train(asked)


def test_goes_on_with_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    asked = config(tmp_path)
    (tmp_path / "run").mkdir()
    Run(asked.out).config.write_text("{}")
    train(asked)
    assert fake_trainer.calls(tmp_path) == ["run resumed"]


def test_moved_folder_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    train(config(tmp_path / "before"))
    (tmp_path / "before").rename(tmp_path / "after")
    train(config(tmp_path / "after"))
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
        train(config(tmp_path))
    train(config(tmp_path))
    assert fake_trainer.calls(tmp_path) == ["run", "run"]


def test_another_configuration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    train(config(tmp_path))
    with pytest.raises(RunError, match="with another configuration"):
        train(config(tmp_path, k=3))


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
        train(config(tmp_path))


@pytest.mark.parametrize(
    "end", ["sys.exit(130)", "os.kill(os.getpid(), signal.SIGINT)"]
)
def test_interrupted_training_is_no_failure(
    end: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interruptible: None,
) -> None:
    program = fake_trainer.install(tmp_path, end)
    monkeypatch.setattr("sys.executable", str(program))
    with pytest.raises(KeyboardInterrupt):
        train(config(tmp_path))


def test_stop_ends_what_runs_and_starts_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path, fake_trainer.ENDLESS)
    monkeypatch.setattr("sys.executable", str(program))
    processes = TrainingProcesses()
    raised: list[BaseException] = []

    def train_until_stopped() -> None:
        try:
            processes.train(config(tmp_path))
        except KeyboardInterrupt as interrupt:
            raised.append(interrupt)

    thread = threading.Thread(target=train_until_stopped)
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
    train(config(tmp_path), at_a_time=3)
    assert (tmp_path / "run.log").read_text() == "2\n"


@pytest.mark.parametrize(
    ("extra", "options", "count"),
    [
        ("", {}, 1),
        ("", {"trainings_each": 2}, 2),
        ("", {"trainings_each": 1}, 3),
        # The second training makes it too large.
        ("peak_mib = 5000 if out.name == '1' else 100", {}, 2),
        ("peak_mib = 5000", {}, 3),
        ("peak_mib = 5000", {"most_mib": 5000}, 1),
    ],
)
def test_process_serves_several_trainings_within_bounds(
    extra: str,
    options: dict[str, Any],
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = fake_trainer.install(tmp_path, extra)
    monkeypatch.setattr("sys.executable", str(program))
    train(*(config(tmp_path, name) for name in "012"), **options)
    assert fake_trainer.calls(tmp_path) == ["0", "1", "2"]
    assert len(fake_trainer.processes(tmp_path)) == count
    for name in "012":
        assert (tmp_path / f"{name}.log").is_file()


@pytest.mark.parametrize(
    "failure",
    ["status = 1", "sys.exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"],
)
def test_failed_training_fails_alone(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fake_trainer.install(tmp_path, f"if out.name == '1': {failure}")
    monkeypatch.setattr("sys.executable", str(program))
    with TrainingProcesses() as processes:
        processes.train(config(tmp_path, "0"))
        with pytest.raises(RunError, match="1: the training failed: "):
            processes.train(config(tmp_path, "1"))
        processes.train(config(tmp_path, "2"))
    # The one that it failed in is not used again.
    assert len(fake_trainer.processes(tmp_path)) == 2


def test_idle_process_that_was_killed_fails_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    with TrainingProcesses() as processes:
        processes.train(config(tmp_path, "0"))
        (idle,) = fake_trainer.processes(tmp_path)
        os.kill(idle, signal.SIGKILL)
        os.waitid(os.P_PID, idle, os.WEXITED | os.WNOWAIT)
        processes.train(config(tmp_path, "1"))
    assert len(fake_trainer.processes(tmp_path)) == 2


def test_each_backend_has_processes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    train(
        config(tmp_path, "0", backend="jax"),
        config(tmp_path, "1", backend="torch"),
        config(tmp_path, "2", backend="torch"),
    )
    assert len(fake_trainer.processes(tmp_path)) == 2


def test_no_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    train(config(tmp_path))
    (process,) = fake_trainer.processes(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_waits_for_a_process_that_is_about_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One whose starter was killed, and which still holds the run's lock."""
    monkeypatch.setattr("sys.executable", str(fake_trainer.install(tmp_path)))
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sole_writer(config(tmp_path).out):
            locked.set()
            done.wait(timeout=60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(timeout=60)
    threading.Timer(0.3, done.set).start()
    train(config(tmp_path))
    holder.join()
    assert fake_trainer.calls(tmp_path) == ["run"]


def test_number_must_be_positive() -> None:
    with pytest.raises(ValueError, match="`at_a_time` must be at least 1"):
        TrainingProcesses(0)


def test_child_process_does_not_outlive_its_starter() -> None:
    code = (
        "import time, recsys.cli; from recsys import child_process;"
        "recsys.cli.run = lambda words: print(*words, flush=True) or "
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
        assert "Starting recsys train" in process.stdout.readline()
        assert process.stdout.readline() == "train --out\n"
        process.stdin.close()
        assert process.wait(timeout=60) == 1
