import subprocess
import sys
import time
from pathlib import Path

from recsys.processes.lifeline import run_alongside
from tests.recsys.process_list import is_running

# Notes that it runs, and then how it goes on, in the file that is named.
CHILD = """
import sys, time
from recsys.processes.lifeline import end_with_starter
end_with_starter()
with open(sys.argv[1], "a", buffering=1) as file:
    print("runs", file=file)
    time.sleep(float(sys.argv[2]))
    print("is done", file=file)
print("said", flush=True)
sys.exit("and failed")
"""


def test_waits_for_the_command(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    ended = run_alongside([sys.executable, "-c", CHILD, str(notes), "0.5"])
    assert (ended.returncode, ended.stdout) == (1, "said\n")
    assert ended.stderr == "and failed\n"
    assert notes.read_text() == "runs\nis done\n"


def test_command_does_not_outlive_its_starter(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    command = [sys.executable, "-c", CHILD, str(notes), "600"]
    code = (
        "from recsys.processes.lifeline import run_alongside\n"
        f"run_alongside({command!r})"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as starter:
        while not notes.is_file():
            assert starter.poll() is None
            time.sleep(0.01)
        starter.kill()
    # The pipe that it would print to is the killed one's; look for itself.
    last = time.monotonic() + 60
    while is_running(str(notes)):
        assert time.monotonic() < last
        time.sleep(0.01)
    assert "is done" not in notes.read_text()
