"""An interpreter that has imported Keras and `recsys` when it starts.

Importing them takes several times as long as a training of a few rows. A
program takes the place of `sys.executable`: it asks a server that has imported
them to fork a process, hands over its standard files, passes signals on, and
ends as that process does, or that with it. It is for tests of what processes
do; how they start is tested with Python itself. Figures are blank there, too.
"""

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from typing import ClassVar

import matplotlib
import numpy as np
from filelock import FileLock

from tests.rare_collection import collect_rarely
from tests.rare_collection import hide_what_stays
from tests.warm_processes import MODULES
from tests.warm_processes import MOST_BYTES
from tests.warm_processes import ROOT
from tests.warm_processes import run_as_python

# What libraries read when they are imported: with others, Python itself starts.
_READ_AT_START = ("OMP_NUM_THREADS", "PYTHONPATH")

# It starts in a fiftieth of a second.
_PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys

words, environment = sys.argv[1:], dict(os.environ)
plain = words[words[:1] == ["-u"] :]  # Lines are flushed in any case.
alike = all(environment.get(name) == value for name, value in {fixed!r})
# What checks exports does so where Keras cannot be imported.
fits = plain[:1] in (["-m"], ["-c"]) and plain[1] not in {without_keras!r}
if "--backend" in words:
    environment["KERAS_BACKEND"] = words[words.index("--backend") + 1]
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    if not alike or not fits:
        raise OSError
    server.connect({address!r} + environment.get("KERAS_BACKEND", ""))
except OSError:
    os.execv({python!r}, [{python!r}, *words])
ignored = []
for number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        ignored.append(number)
    else:
        signal.signal(number, lambda number, _: server.send(bytes([number])))
request = dict(words=plain, cwd=os.getcwd(), env=environment, ignored=ignored)
socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
for file in (0, 1, 2):
    os.close(file)
status = int(server.recv(100) or -signal.SIGKILL)
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""


class WarmPython:
    """The program and its servers, for all processes of pytest-xdist."""

    _seconds: ClassVar[Path | None] = None

    @classmethod
    def started(cls, folder: Path, backend: str, owner: int) -> Path:
        """Returns the program, with a server of a backend of Keras.

        Of another backend, for which none has been started, Python starts.

        Args:
            folder: Where they are; its path is short.
            backend: Which one is imported.
            owner: The id of a process; the server ends after it.
        """
        cls._seconds = folder / _worker(os.environ)
        program, address = folder / "python", folder / "requests-"
        with FileLock(folder / "lock"):
            if not program.exists():
                fixed = [
                    (name, os.environ.get(name)) for name in _READ_AT_START
                ]
                text = _PROGRAM.format(
                    python=sys.executable,
                    fixed=fixed,
                    without_keras=MODULES,
                    address=str(address),
                )
                program.write_text(text)
                program.chmod(0o755)
            if not address.with_name(address.name + backend).exists():
                _start_server(address, backend, owner)
        return program

    @classmethod
    def seconds(cls) -> float:
        """CPU seconds of what was run for this process of pytest-xdist."""
        if cls._seconds is None or not cls._seconds.exists():
            return 0.0
        return sum(map(float, cls._seconds.read_text().split()))


def _worker(environment: Any) -> str:
    """The file that has the seconds of a process of pytest-xdist."""
    return f"seconds-{environment.get('PYTEST_XDIST_WORKER', '')}"


def _start_server(address: Path, backend: str, owner: int) -> None:
    begun, ready = os.pipe()
    command = [sys.executable, "-m", __name__, f"{address}{backend}"]
    with os.fdopen(begun) as said:
        subprocess.Popen(
            [*command, str(owner), str(ready)],
            pass_fds=[ready],
            cwd=ROOT,
            env={**os.environ, "KERAS_BACKEND": backend},
            stdin=subprocess.DEVNULL,
        ).returncode = 0  # Nobody waits for it.
        os.close(ready)
        assert said.read() == "ready"


def _serve(address: Path, owner: int, ready: int) -> None:
    """Forks a process for each program that asks, while the owner lives."""
    from matplotlib.figure import Figure

    # None of them begins threads, which no fork would have.
    import recsys.api.train
    import recsys.cli  # noqa: F401
    from tests.blank_figures import save_blank

    Figure.savefig = save_blank  # type: ignore[method-assign, assignment]
    collect_rarely()
    hide_what_stays()
    _note_seconds(address.parent, os.environ, sum(os.times()[:2]))
    requests = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    requests.bind(str(address))
    requests.listen()
    os.write(ready, b"ready")
    os.close(ready)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while _lives(owner):
        if select.select([requests], [], [], 1.0)[0]:
            program, _ = requests.accept()
            if _fork() == 0:
                requests.close()
                _watch(program, address.parent)
            program.close()
    shutil.rmtree(address.parent, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _fork() -> int:
    with warnings.catch_warnings():
        # Of JAX, which Keras imports, and of Python: nothing runs in a thread.
        warnings.simplefilter("ignore")
        return os.fork()


def _watch(program: socket.socket, folder: Path) -> None:
    """Forks the process itself, and tells the program how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(program, MOST_BYTES, 3)
    request = json.loads(message)
    process = _fork()
    if process == 0:
        program.close()
        os._exit(_run(request, files, folder))
    for file in files:
        os.close(file)
    ending = os.pidfd_open(process)
    waited: list[int | socket.socket] = [ending, program]
    while ending not in (ended := select.select(waited, [], [])[0]):
        assert program in ended
        # Nothing more comes from a program that was killed.
        number = program.recv(1) or bytes([signal.SIGKILL])
        os.kill(process, number[0])
        if number[0] == signal.SIGKILL:
            break
    _, status, usage = os.wait4(process, 0)
    seconds = usage.ru_utime + usage.ru_stime
    _note_seconds(folder, request["env"], seconds)
    try:
        program.send(str(os.waitstatus_to_exitcode(status)).encode())
    finally:
        os._exit(0)


def _note_seconds(folder: Path, environment: Any, seconds: float) -> None:
    with (folder / _worker(environment)).open("a") as file:
        file.write(f"{seconds:.3f}\n")


def _run(request: Any, files: list[int], folder: Path) -> int:
    """Runs what the program was to run; returns the status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        ignored = number in request["ignored"]
        signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.executable = str(folder / "python")
    # Matplotlib has been imported, which is when it reads this.
    if "MPLBACKEND" in request["env"]:
        matplotlib.rcParams["backend"] = request["env"]["MPLBACKEND"]
    random.seed()
    np.random.seed()
    return run_as_python(request, files)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), *map(int, sys.argv[2:]))
