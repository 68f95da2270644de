import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recsys.cli import run as recsys
from tests.recsys.api.interruptions import interrupt_when

pytestmark = pytest.mark.once("torch")

Settings = Callable[..., dict[str, Any]]

once = pytest.mark.once("torch")  # Processes of its own; it starts first.


def words(fields: dict[str, Any]) -> list[str]:
    """The options that say what the fields say."""
    return [
        word
        for name, value in fields.items()
        for item in (value if isinstance(value, list) else [value])
        for word in (f"--{name.replace('_', '-')}", str(item))
    ]


def error_of(
    capfd: pytest.CaptureFixture[str], status: int, *arguments: str
) -> str:
    """The one line that a failing command prints."""
    assert recsys([*arguments]) == status
    captured = capfd.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.slow
def test_from_training_to_predictions(
    settings: Settings,
    data: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    fields = settings(folder, gate="comet", task_weight=["watch=0.8"])
    options = [*words(fields), "--gate-option", "gamma=2"]
    assert recsys(["train", *options]) == 0
    printed = capfd.readouterr().out
    for word in ("watch", "rating", "weighted total", "AUC", "MSE", "Experts"):
        assert word in printed
    config = json.loads((folder / "config.json").read_text())
    assert config["gate_options"] == {"gamma": 2.0, "entropy_weight": 0.001}
    assert config["task_weights"] == {"watch": 0.8, "rating": 0.2}
    assert config["expert_units"] == [8]

    metrics = tmp_path / "metrics.json"
    common = ["--run", str(folder)]
    assert (
        recsys(
            ["evaluate", *common, "--data", str(data), "--out", str(metrics)]
        )
        == 0
    )
    written = json.loads((folder / "metrics.json").read_text())["test"]
    assert json.loads(metrics.read_text())["loss"] == pytest.approx(
        written["loss"]
    )

    table = tmp_path / "out.csv"
    source = str(data / "test.parquet")
    assert (
        recsys(["predict", *common, "--input", source, "--out", str(table)])
        == 0
    )
    assert "40 predictions" in capfd.readouterr().out
    assert pd.read_csv(table)["watch"].between(0, 1).all()


@pytest.mark.slow
@once
def test_killed_run_is_resumed_from_its_own_configuration(
    settings: Settings,
    tmp_path: Path,
    interruptible: None,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    fields = settings(folder, epochs=500, patience=500)
    process = subprocess.Popen(
        [sys.executable, "-m", "recsys", "train", *words(fields)]
    )
    while not (folder / "history.csv").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = len(pd.read_csv(folder / "history.csv"))
    interrupt_when(lambda: len(pd.read_csv(folder / "history.csv")) > before)
    assert recsys(["train", "--out", str(folder), "--resume"]) == 130
    out = capfd.readouterr().out
    assert "recsys train --out" in out
    assert "--resume" in out
    epochs = pd.read_csv(folder / "history.csv")["epoch"].tolist()
    assert epochs == list(range(1, len(epochs) + 1))


@pytest.mark.slow
def test_lost_training_is_one_line(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Repeats a run from its configuration, but for the learning rate."""
    changes = {"out": tmp_path / "run", "learning_rate": 4e9}
    config = str(run / "config.json")
    assert recsys(["train", "--config", config, *words(changes)]) == 1
    assert "in epoch 1, step" in capfd.readouterr().err


def test_help_shows_the_fields_with_their_defaults(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert recsys(["train", "--help"]) == 0
    shown = capfd.readouterr().out
    assert "--num-experts" in shown
    assert "Number of experts shared by the tasks." in shown
    assert "the preset's; 8 for" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "--gate", "best"], "`gate` must be one of softmax"),
        (["train", "--k", "0"], "`k` must be at least 1. Received: k=0"),
        (["train", "--k", "two"], "'--k'"),
        (["train", "--num-expert", "4"], "--num-expert"),
        (["train", "--task-weight", "watch"], "must be NAME=NUMBER. Received"),
        (["train", "--task-weight", "watch=much"], "'watch=much'"),
        (["train", "--task-weight", "click=1"], "'click'"),
        (["train", "--gate-option", "gamma"], "must be NAME=VALUE. Received"),
        (["train", "--gate-option", "gama=1"], "among gamma, entropy_weight"),
        (
            ["train", "--config", "missing.json"],
            "error: missing.json: No such file",
        ),
        (["predict", "--run", "r"], "--input"),
        (["forecast"], "forecast"),
    ],
)
def test_wrong_argument_is_one_line(
    arguments: list[str],
    message: str,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "train":
        arguments += ["--data", str(data), "--out", "run"]
    status = 1 if "missing.json" in arguments else 2
    assert message in error_of(capfd, status, *arguments)
    assert not Path("run").exists()


def test_missing_argument_is_one_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert "`data` must be given" in error_of(capfd, 2, "train", "--out", "r")


def test_missing_data_are_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = error_of(
        capfd,
        1,
        *("train", "--data", str(tmp_path / "data"), "--out", "run"),
    )
    assert "expected a data folder" in line


def test_broken_configuration_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    file.write_text("{")
    line = error_of(capfd, 1, "train", "--config", str(file))
    assert f"{file}, line 1: expected JSON" in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "--data", "synthetic"],
        ["predict", "--input", "in.csv", "--out", "out.csv"],
        ["export", "--out", "out"],
        ["train", "--resume"],
    ],
)
def test_missing_run_is_one_line(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    option = "--out" if "train" in arguments else "--run"
    line = error_of(capfd, 1, *arguments, option, str(tmp_path / "none"))
    assert str(tmp_path / "none") in line


@pytest.mark.slow
def test_cuts_stand_below_the_whole(
    run: Path, data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "metrics.json"
    common = ["--run", str(run), "--data", str(data), "--out", str(out)]
    assert recsys(["evaluate", *common, "--by", "age"]) == 0
    cuts = json.loads(out.read_text())["by"]["age"]
    assert len(cuts) == 5
    printed = capfd.readouterr().out
    at = [printed.index(f"age: {cut}") for cut in cuts]
    assert at == sorted(at)
    assert printed.index("test") < at[0]


def test_other_backend_is_one_line(
    run: Path, other_backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    line = error_of(
        capfd,
        2,
        *("evaluate", "--run", str(run), "--data", "synthetic"),
        *("--backend", other_backend),
    )
    assert f"KERAS_BACKEND={other_backend}" in line


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECSYS_TRACEBACK", "1")
    with pytest.raises(ValueError, match="`data` must be given"):
        recsys(["train", "--out", "run"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("scale", "`option` must be NAME=VALUE. Received: 'scale'"),
        ("scale=5", "of the data set 'movielens-1m' must be among subsample"),
        (
            "seed=5",
            "must be among subsample, features, split. Received: 'seed'",
        ),
    ],
)
def test_wrong_option_of_a_data_set_is_one_line(
    option: str,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = ["--raw-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    words += ["--option", option]
    assert message in error_of(capfd, 2, "prepare", "movielens-1m", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("books --subsample published", "data set 'books' must be among"),
        ("movielens-1m --subsample half", "`subsample` must be 'published'"),
        (
            "movielens-1m --subsample published --option subsample=published",
            "subsample must be given once",
        ),
    ],
)
def test_wrong_subsample_is_one_line(
    words: str,
    message: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folders = ["--raw-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    line = error_of(capfd, 2, "prepare", *words.split(), *folders)
    assert message in line
    assert "subsample" in line


def test_prepare_subsamples(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Four users have rated 40 of 200 movies, twelve have rated 10."""
    counts = [40] * 4 + [10] * 12
    lines = [
        f"{user}::{(7 * user + item) % 200}::{1 + item % 5}\n"
        for user, count in enumerate(counts)
        for item in range(count)
    ]
    (tmp_path / "ratings.dat").write_text("".join(lines), encoding="utf-8")
    out = tmp_path / "out"
    words = ["prepare", "movielens-1m", "--raw-dir", str(tmp_path)]
    words += ["--subsample", "published", "--out", str(out)]
    assert recsys(words) == 0
    # 441 training, 63 validation and 56 test rows, of which 1 in 15.
    assert "train: 58 rows" in capfd.readouterr().out
    users = pd.read_parquet(out / "train.parquet")["user"]
    assert set(users) == {0, 1, 2, 3}


def test_prepare_reports_what_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = error_of(
        capfd,
        1,
        *("prepare", "movielens-1m", "--raw-dir", str(tmp_path)),
        *("--out", str(tmp_path / "out")),
    )
    assert str(tmp_path) in line


def test_names_of_a_table_do_not_control_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = {"\x1b[31mred\x07": range(40), "click": [0, 1] * 20}
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    out = str(tmp_path / "out")
    arguments = ["prepare", "table", "--raw-dir", str(tmp_path), "--out", out]
    options = ["train=log.csv", "ids=*red*", "binary=click"]
    for option in options:
        arguments += ["--option", option]
    assert recsys(arguments) == 0
    printed = capfd.readouterr().out
    assert "\x1b" not in printed
    assert "  \\x1b[31mred\\x07: " in printed


def test_no_command_shows_the_help(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert recsys([]) == 2
    captured = capfd.readouterr()
    assert "Usage:" in captured.out
    assert "compare" in captured.out
    assert not captured.err


def test_end_of_a_file_is_not_taken_for_an_interruption(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(*_: Any, **__: Any) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr("recsys.commands.prepare.named_values", end)
    with pytest.raises(EOFError, match="Ran out of input"):
        recsys(["prepare", "jester", "--raw-dir", ".", "--out", "out"])


def test_lack_of_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fill(*_: Any) -> None:
        raise MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr("recsys.commands.train.given_fields", fill)
    assert "a request for 9 EiB" in error_of(capfd, 1, "train")


@once
@pytest.mark.parametrize("module", ["recsys", "recsys.child_process"])
def test_interruption_while_it_starts_is_one_line(
    module: str, interruptible: None
) -> None:
    """At moments all over the imports, which take seconds."""
    command = [sys.executable, "-X", "importtime", "-m", module]
    for imported in ("typer", "pydantic.main", "recsys.config.config_file"):
        with subprocess.Popen(
            [*command, "train", "--data", "none", "--out", "none"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if line.split("|")[-1].strip() == imported:
                    process.send_signal(signal.SIGINT)
                    break
            said = [
                line.strip()
                for line in process.stderr
                if not line.startswith("import time:")
            ]
            assert process.wait() == 130
        assert said == ["Interrupted."]
