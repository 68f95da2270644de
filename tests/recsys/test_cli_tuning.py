import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recsys.cli import run as recsys
from tests.recsys import fake_trainer
from tests.recsys.test_cli import error_of

pytestmark = pytest.mark.once("torch")

SPACE = "learning_rate: {min: 1e-4, max: 1e-2, sampling: log}\nk: [1, 2]\n"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    file = tmp_path / "space.yaml"
    file.write_text(SPACE)
    return file


def test_from_a_sweep_to_a_table(
    data: Path,
    space: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = fake_trainer.install(tmp_path)
    monkeypatch.setattr("sys.executable", str(program))
    out = str(tmp_path / "sweep")
    command = ["tune", "--data", str(data), "--gate", "top-k", "--out", out]
    command += ["--trials", "2", "--space", str(space), "--epochs", "1"]
    assert recsys(command) == 0
    printed = capfd.readouterr().out.splitlines()
    doing = [line.partition("] ")[2] for line in printed if line[:1] == "["]
    assert doing == [
        f"Reading the data in {data}",
        "Training up to 2 trials, 1 at a time",
    ]
    printed = printed[len(doing) :]
    assert printed[0].startswith("trial 0: validation loss 0.0000 (1 of 2, ")
    *table, count, best, place, _, following = printed[2:]
    (header,) = (line.split() for line in table if "Trial" in line)
    assert header == ["Trial", "Loss", "Experts", "Counts", "Drawn"]
    rows = [line.split() for line in table if "learning_rate" in line]
    assert {row[0] for row in rows} == {"0", "1"}
    assert count == f"2 trials, 0 of them failed, in {out}"
    assert best.startswith(f"Best: trial {rows[0][0]} ")
    assert '"learning_rate": 0.00' in best
    assert place.endswith(str(Path(out, "trials", rows[0][0])))
    assert recsys([*command, "--resume"]) == 0
    capfd.readouterr()

    program, *words = shlex.split(following)
    assert program == "recsys"
    assert recsys(words) == 0
    printed = capfd.readouterr().out.splitlines()
    header = next(line for line in printed if line[:3] == "  m")
    assert header.split() == ["model", f"trial-{rows[0][0]}"]
    assert "|" not in "".join(printed)
    assert "| model | seeds | " in Path(f"{out}-rerun/table.md").read_text()


def test_the_best_of_a_sweep_is_sparse(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The trainer says k experts per example; the bound is 4."""
    program = fake_trainer.install(tmp_path)
    monkeypatch.setattr("sys.executable", str(program))
    space = tmp_path / "space.yaml"
    space.write_text("k: [5, 6]")
    out = str(tmp_path / "sweep")
    command = ["tune", "--data", str(data), "--gate", "gumbel-softmax"]
    command += ["--out", out, "--trials", "2", "--space", str(space)]
    assert recsys(command) == 0
    *_, count, notice, _, following = capfd.readouterr().out.splitlines()
    assert count == f"2 trials, 0 of them failed, in {out}"
    assert "trials: 2 of 2 of gumbel-softmax. --any-sparsity" in notice
    assert following.endswith(" --any-sparsity")
    assert recsys([*command, "--resume", "--any-sparsity"]) == 0
    *_, best, _, _, following = capfd.readouterr().out.splitlines()
    assert best.startswith("Best: trial ")
    assert following.endswith(" --any-sparsity")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "2", "--tuner", "grid"], "`tuner` must be one of"),
        (["--trials", "0"], "`trials` must be at least 1"),
        (["--trials", "2", "--workers", "0"], "`workers` must be at least 1"),
        (["--engine", "optuna"], "`engine` must be one of keras-tuner, ray"),
        (["--trials", "two"], "'--trials'"),
        (["--trials", "2", "--backend", "numpy"], "`backend` must be one of"),
        (["--trials", "2", "--gate", "best"], "`gate` must be one of softmax"),
        (["--trials", "2", "--space", "none.yaml"], "none.yaml"),
        (["--paper", "moesart"], "`paper` must be one with the gate"),
        (["--trials", "2", "--gate-option", "gama=1"], "'gama'"),
    ],
)
def test_wrong_argument_is_one_line(
    words: list[str],
    message: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["tune", "--data", str(data), "--out", "sweep", *words]
    status = 1 if "none.yaml" in words else 2
    assert message in error_of(capfd, status, *command)
    assert not Path("sweep").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("k: [1, 2", "expected YAML"),
        ("momentum: [0.9]", "Received: 'momentum'"),
        ("k: {min: 2, max: 1}", "`k`: expected `max` to be above min, 2"),
        ("k: [0, 1]", "`k` must be at least 1"),
    ],
)
def test_wrong_space_is_one_line(
    content: str,
    message: str,
    data: Path,
    space: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    space.write_text(content)
    out = tmp_path / "sweep"
    words = ["--data", str(data), "--out", str(out), "--trials", "2"]
    status = 1 if message == "expected YAML" else 2
    line = error_of(capfd, status, "tune", *words, "--space", str(space))
    assert line.startswith(f"error: {space}")
    assert message in line
    assert not out.exists()


def test_missing_data_are_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--data", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    line = error_of(capfd, 1, "tune", *words, "--trials", "2")
    assert "expected a data folder" in line


def test_missing_sweep_is_one_line(
    settings: Callable[..., dict[str, Any]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = ["--out", str(tmp_path / "out")]
    words = ["--sweep", str(tmp_path), "--seeds", "2"]
    line = error_of(capfd, 1, "rerun", *words, *out)
    assert "expected the folder of a sweep" in line
    data = settings(tmp_path)["data"]
    words = ["--data", data, "--trials", "2", "--resume"]
    line = error_of(capfd, 1, "tune", *words, *out)
    assert "expected the folder of a sweep" in line


def test_half_an_environment_is_one_line(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    monkeypatch.delenv("KERASTUNER_TUNER_ID", raising=False)
    out = tmp_path / "sweep"
    words = ["--data", str(data), "--out", str(out), "--trials", "2"]
    line = error_of(capfd, 2, "tune", *words)
    assert "KERASTUNER_TUNER_ID must be set" in line
    monkeypatch.setenv("KERASTUNER_TUNER_ID", "worker-0")
    monkeypatch.setenv("KERASTUNER_ORACLE_PORT", "8000")
    line = error_of(capfd, 2, "tune", *words, "--engine", "ray")
    assert "`engine` must be 'keras-tuner' for its chief and workers" in line
    assert not out.exists()
