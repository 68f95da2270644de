"""Processes without Keras that have TensorFlow from the start.

Importing TensorFlow takes several times as long as all that a test asks of a
tiny model that was exported. One process imports it, where Keras cannot be
imported, and each of these is forked from it: a process of its own, in which
nothing has been run.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from typing import ClassVar

from recsys.processes import lifeline

MODULES = (
    "recsys.exporting.fresh_process",
    "recsys.exporting.two_stage_process",
)
MOST_BYTES = 1_000_000  # Of a request: words and an environment.
ROOT = Path(__file__).parents[1]
PYTHON = sys.executable  # A test may put another one in its place.


class WarmProcess:
    """`python -m MODULE ...`, forked from where TensorFlow is imported.

    Args:
        module: The module that it runs.
        arguments: What follows it in the command.
        files: Descriptors of its standard input, output and errors.
        env: Its environment; this process's unless given.
    """

    # CPU seconds of those that have ended, and of what they begin with.
    seconds: ClassVar[float] = 0.0
    _source: ClassVar[tuple[socket.socket, Any] | None] = None

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        files: tuple[int, int, int],
        env: Mapping[str, str] | None = None,
    ) -> None:
        request = {
            "words": ["-m", module, *arguments],
            "cwd": os.getcwd(),
            "env": dict(os.environ if env is None else env),
        }
        own, reports = socket.socketpair()
        with reports:
            socket.send_fds(
                self._begun(),
                [json.dumps(request).encode()],
                [*files, reports.fileno()],
            )
        self._reports = own.makefile("r")
        own.close()

    @classmethod
    def _begun(cls) -> socket.socket:
        if cls._source is None:
            own, requests = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with requests:
                process = subprocess.Popen(
                    [PYTHON, "-m", __name__, str(requests.fileno())],
                    pass_fds=[requests.fileno()],
                    cwd=ROOT,
                )
            cls._source = own, process
            cls.seconds += float(own.recv(100))
        return cls._source[0]

    @classmethod
    def end_source(cls) -> None:
        """Ends what they are forked from; the next one begins it anew."""
        if cls._source is not None:
            requests, process = cls._source
            requests.close()
            process.wait()
            cls._source = None

    def wait(self) -> int:
        """Returns the status that it ends with."""
        with self._reports:
            status, seconds = json.loads(self._reports.readline())
        WarmProcess.seconds += seconds
        return int(status)


def run_alongside(
    command: Sequence[str], env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Does what `recsys.processes.lifeline.run_alongside` does, warm.

    What needs more than TensorFlow when it starts is left to that one.
    """
    _, _, module, *arguments = command
    if module not in MODULES or "scann" in arguments:
        return lifeline.run_alongside(command, env)
    with ExitStack() as stack:
        lower, upper = os.pipe()
        stack.callback(os.close, lower)
        stack.callback(os.close, upper)
        out, errors = (
            stack.enter_context(TemporaryFile("w+")) for _ in range(2)
        )
        files = lower, out.fileno(), errors.fileno()
        status = WarmProcess(module, arguments, files, env).wait()
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(
            command, status, out.read(), errors.read()
        )


def _serve(requests: socket.socket) -> None:
    """Forks a process for each request, until nobody can ask any more."""
    from recsys.exporting.fresh_process import HIDDEN

    for hidden in HIDDEN:
        # Importing it fails as if there were no such module.
        sys.modules[hidden] = None  # type: ignore[assignment]
    import tensorflow  # noqa: F401

    requests.send(str(time.process_time()).encode())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, files, _, _ = socket.recv_fds(requests, MOST_BYTES, 4)
        if not message:
            return
        if os.fork() == 0:
            requests.close()
            _watch(json.loads(message), files)
        for file in files:
            os.close(file)


def _watch(request: Any, files: list[int]) -> None:
    """Forks the process itself, and reports its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, reports = files
    pid = os.fork()
    if pid == 0:
        os.close(reports)
        os._exit(run_as_python(request, standard))
    for file in standard:
        os.close(file)
    _, ended, usage = os.wait4(pid, 0)
    status = os.waitstatus_to_exitcode(ended)
    line = json.dumps([status, usage.ru_utime + usage.ru_stime])
    os.write(reports, f"{line}\n".encode())
    os._exit(0)


def run_as_python(request: Any, files: list[int]) -> int:
    """Runs the words of a command line of Python in this process.

    Args:
        request: "words" from `-m` or `-c` on, "cwd", and "env", all of the
            environment.
        files: Descriptors for its standard input, output and errors.

    Returns:
        The status that it ends with.
    """
    for target, file in enumerate(files):
        os.dup2(file, target)
        os.close(file)
    sys.stdin = os.fdopen(0)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    os.environ.clear()
    os.environ.update(request["env"])
    option, program, *arguments = request["words"]
    sys.argv = [program if option == "-m" else option, *arguments]
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(program, {"__name__": "__main__"})
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return int(end.code or 0)
    except KeyboardInterrupt:
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
