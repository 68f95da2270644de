"""Processes that end when one of them dies, without any training."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recsys.distribution import watcher
from tests.recsys.distribution.command_processes import Ended

COUNT = 3
# In turn: meet, act, wait until the last one has died, and go on for long.
SCRIPT = """
import fcntl, os, signal, socket, sys, time
from pathlib import Path
from recsys.distribution import watcher
from recsys.distribution.watch import Watch

watcher.__file__ = os.environ.get("WATCHER", watcher.__file__)

index, act, lifeline, folder = int(sys.argv[1]), *sys.argv[2:]
watch = Watch(index, 3)

# The others die as this closes, like a socket of a training, of a number
# above most others, which the system frees first.
passed, lifeline = int(lifeline), fcntl.fcntl(int(lifeline), fcntl.F_DUPFD, 500)
os.close(passed)
if not index:
    Path(folder, "new").write_text(str(watch.port))
    Path(folder, "new").rename(Path(folder, "port"))
while not Path(folder, "port").exists():
    time.sleep(0.01)
port = int(Path(folder, "port").read_text())
if act == "intrude":
    intruder = socket.create_connection(("127.0.0.1", port))
    intruder.sendall(b"8 1\\ndied 1\\n")
watch.join("127.0.0.1", port, 7)
if act in ("leave", "intrude"):
    print("before", file=sys.stderr)
    watch.leave()
    time.sleep(index / 2)
    print("after", file=sys.stderr)
    sys.exit(7)
if act == "silent":
    os.kill(watch._watcher.pid, signal.SIGSTOP)
    time.sleep(4)
    os.kill(watch._watcher.pid, signal.SIGCONT)
if act == "kill":
    # Takes the system a while to free, after the lifeline.
    os.posix_fallocate(os.memfd_create("memory"), 0, 1 << 28)
    os.kill(os.getpid(), signal.SIGKILL)
if act == "raise":
    raise ValueError("own words")
os.read(lifeline, 1)
os.write(2, b"UNAVAILABLE: wall of text")
if act == "crash":
    os._exit(6)
time.sleep(60)
"""

Run = Callable[..., list[Ended]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs processes that act as is said; the last has what others wait for."""

    def start(*acts: str) -> list[Ended]:
        reader, writer = os.pipe()
        dying = [act for act in acts if act not in ("wait", "crash")]
        started = []
        for index, act in enumerate(acts):
            end = writer if act in dying else reader
            started.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-c", SCRIPT, str(index), act),
                        *(str(end), str(tmp_path)),
                    ],
                    pass_fds=[end],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        os.close(reader)
        os.close(writer)
        ended = []
        for process in started:
            printed, errors = process.communicate(timeout=50)
            ended.append(
                Ended(process.returncode, printed, errors, time.time())
            )
        return ended

    return start


@pytest.mark.parametrize(
    ("dies", "others"), [(0, "wait"), (1, "wait"), (2, "wait"), (0, "crash")]
)
def test_one_that_is_killed_ends_all(dies: int, others: str, run: Run) -> None:
    acts = [others] * COUNT
    acts[dies] = "kill"
    ended = run(*acts)
    assert ended.pop(dies).status == -signal.SIGKILL
    for other in ended:
        # JAX crashes when the first one dies, and may be the quicker one.
        assert other.status in ({6, 1} if others == "crash" else {1})
        assert other.errors.startswith(f"error: process {dies} of {COUNT} ")
        assert other.errors.count("\n") == 1


def test_one_that_fails_says_why_and_ends_all(run: Run) -> None:
    first, failed, third = run("wait", "raise", "wait")
    assert failed.status == 1
    assert failed.errors.endswith("ValueError: own words\n")
    assert "error: process" not in failed.errors
    for other in (first, third):
        assert other.status == 1
        assert other.errors.startswith("error: process 1 of 3 ")


def test_those_that_have_left_end_as_they_like(run: Run) -> None:
    for one in run("leave", "leave", "leave"):
        assert (one.status, one.errors) == (7, "before\nafter\n")


def test_who_does_not_know_the_secret_is_not_heard(run: Run) -> None:
    for one in run("leave", "leave", "intrude"):
        assert (one.status, one.errors) == (7, "before\nafter\n")


def test_one_that_falls_silent_ends_all(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path(watcher.__file__).read_text()
    quick = text.replace("SILENCE_SECONDS = 30.0", "SILENCE_SECONDS = 2.0")
    assert quick != text
    (tmp_path / "watcher.py").write_text(quick)
    monkeypatch.setenv("WATCHER", str(tmp_path / "watcher.py"))
    first, silent, third = run("wait", "silent", "wait")
    assert silent.status == 1
    for other in (first, third):
        assert other.status == 1
        assert "error: process 1 of 3 " in other.errors
