"""Processes with Keras from the start are processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.once("torch"),
    pytest.mark.usefixtures("warm_python"),
]

SHOWN = """
import os, sys
print(os.getcwd(), os.environ["LANGUAGE"], *sys.argv[1:], sys.stdin.read())
os.environ["LANGUAGE"] = "of this process alone"
"""


@pytest.mark.parametrize(
    ("end", "status", "last_line"),
    [
        ("", 0, None),
        ("sys.exit(3)", 3, None),
        ("sys.exit('é')", 1, "é"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("os.kill(os.getpid(), 9)", -9, None),
        ("os.kill(os.getpid(), 6)", -6, None),
    ],
)
@pytest.mark.parametrize("option", ["-m", "-c"])
def test_it_ends_as_python_does(
    option: str,
    end: str,
    status: int,
    last_line: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = f"{SHOWN}sys.stdout.flush()\n{end}\n"
    (tmp_path / "shown.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGUAGE", "é")
    words = [option, "shown" if option == "-m" else code, "a", "b c"]
    ended = subprocess.run(
        [sys.executable, *words],
        input="read",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == status, ended.stderr
    assert ended.stdout == f"{tmp_path} é a b c read\n"
    assert (ended.stderr.splitlines() or [None])[-1] == last_line


def test_keras_is_there_unless_another_backend_is_wanted(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def printed() -> str:
        code = "import sys; print('keras' in sys.modules, end='')"
        command = [sys.executable, "-c", code]
        return subprocess.check_output(command, text=True)

    assert printed() == str(bool(request.config.getoption("--once")))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert printed() == "False"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_arrive(number: signal.Signals, interruptible: None) -> None:
    code = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(timeout=60) in (-number, 130)


def test_it_is_killed_with_the_process_that_was_started(
    tmp_path: Path,
) -> None:
    file = tmp_path / "id"
    code = (
        "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid()));"
        "print(flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    own = int(file.read_text())
    until = time.monotonic() + 60
    while Path(f"/proc/{own}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert own != os.getpid()
