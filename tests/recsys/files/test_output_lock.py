import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from recsys import RunError
from recsys.cli import run as command_line
from recsys.files.output_lock import sole_writer
from recsys.tuning.sweep import Plan
from recsys.tuning.sweep import Sweep

pytestmark = pytest.mark.once("torch")

LOCKED = (
    "expected an output that no other process is writing to. "
    "Received: one locked by another recsys process"
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def another_writer(out: Path) -> Iterator[None]:
    """Holds the lock in a thread, which excludes as a process does."""
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with sole_writer(out):
            locked.set()
            done.wait(timeout=600)

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(timeout=60)
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_second_writer_ends_at_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        another_writer(out),
        pytest.raises(RunError, match=f"^{out}: {LOCKED}$"),
        sole_writer(out),
    ):
        pytest.fail("Two have the lock.")
    with sole_writer(out):
        pass


def test_lock_stands_beside_the_output_and_goes(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "out"):
        assert names(tmp_path) == [".out.lock"]
    assert names(tmp_path) == []


def test_outputs_do_not_lock_each_other(tmp_path: Path) -> None:
    with another_writer(tmp_path / "a"), sole_writer(tmp_path / "b"):
        assert names(tmp_path) == [".a.lock", ".b.lock"]


def test_path_may_be_given_in_any_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with another_writer(tmp_path / "out"):
        for same in ("out", "./link/out", "nowhere/../out"):
            with pytest.raises(RunError, match=LOCKED), sole_writer(same):
                pytest.fail(f"{same} is another output.")


def test_holder_may_take_it_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sole_writer(out):
        with sole_writer(out):
            assert names(tmp_path) == [".out.lock"]
        assert names(tmp_path) == [".out.lock"]


def test_waits_for_the_other_if_told_to(tmp_path: Path) -> None:
    out, order = tmp_path / "out", []

    def write() -> None:
        with sole_writer(out, wait=60):
            order.append("second")

    thread = threading.Thread(target=write)
    with sole_writer(out):
        thread.start()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_new_parents_stay_only_with_an_output(tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder" / "out"
    with sole_writer(out):
        assert out.parent.is_dir()
    assert names(tmp_path) == []
    with sole_writer(out):
        out.mkdir()
    assert names(out.parent) == ["out"]


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, sys; from pathlib import Path;"
        "from recsys.files.output_lock import sole_writer;"
        "from recsys.files.atomic import replacing\n"
        "with sole_writer(sys.argv[1]), replacing(Path(sys.argv[1])) as out:\n"
        "    out.mkdir(); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, out], check=False)
    assert len(names(tmp_path)) == 2
    with sole_writer(out):
        assert names(tmp_path) == [".out.lock"]
    assert names(tmp_path) == []


def test_output_in_a_folder_that_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the mounted folder of a container is."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    out = tmp_path / "mounted" / "out"
    out.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with (
        another_writer(out),
        pytest.raises(RunError, match=LOCKED),
        sole_writer(out),
    ):
        pytest.fail("Two have the lock.")
    assert names(out.parent) == ["out"]
    assert names(temporary) == []


@pytest.mark.parametrize(
    "command",
    [
        "prepare digits --raw-dir nowhere --out OUT",
        "train --data DATA --out OUT",
        "train --data DATA --out OUT --resume --config CONFIG",
        "tune --data DATA --gate top-k --trials 2 --out OUT",
        "tune --data DATA --gate top-k --trials 2 --out OUT --resume",
        "compare COMPARISON --out OUT",
        "rerun --sweep SWEEP --seeds 2 --out OUT",
        "evaluate --run nowhere --data DATA --out OUT",
        "predict --run nowhere --input nowhere.csv --out OUT.csv",
        "report nowhere --out OUT",
        "export --run nowhere --out OUT",
    ],
)
def test_every_command_that_writes_holds_the_lock(
    command: str,
    data: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    places = {"OUT": tmp_path / "out", "DATA": data}
    for name, content in FILES.items():
        places[name] = tmp_path / name.lower()
        places[name].write_text(json.dumps(content))
    places["SWEEP"] = finished_sweep(tmp_path / "sweep")
    words = command.split()
    for name, place in places.items():
        words = [word.replace(name, str(place)) for word in words]
    out = Path(words[words.index("--out") + 1])
    before = names(tmp_path)
    with another_writer(out):
        assert command_line(words) == 1
        assert sorted({*before, f".{out.name}.lock"}) == names(tmp_path)
    assert capfd.readouterr().err == f"error: {out}: {LOCKED}\n"
    assert names(tmp_path) == before


FILES = {
    "CONFIG": {"gate": "top-k"},
    "COMPARISON": {"models": {"a": {}}, "base": {"data": "synthetic"}},
}


METRICS = {"loss": 1, "tasks": {"a": {"loss": 1}}, "experts_per_example": None}


def finished_sweep(folder: Path) -> Path:
    """A sweep of one trial."""
    sweep = Sweep(folder)
    sweep.start(Plan("random", 1, {"data": "synthetic"}, {}))
    sweep.log.append(
        {
            "trial": "0",
            "status": "completed",
            "hyperparameters": {},
            "validation": METRICS,
            "test": METRICS,
            "config": {"data": "synthetic", "out": "run"},
        }
    )
    return folder


def test_an_output_with_the_longest_name(tmp_path: Path) -> None:
    out = tmp_path / ("é" * 127)
    with (
        another_writer(out),
        pytest.raises(RunError, match=LOCKED),
        sole_writer(out),
    ):
        pass
    with sole_writer(out):
        pass
