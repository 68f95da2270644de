import atexit
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

from recsys.distribution import watcher

# More than a training opens.
_FILES = 4096


class Watch:
    """The watcher of this process, which is a process of its own.

    From now on until `leave`, the end of this process ends all others, and
    that of another one ends this one, with an error in one line.

    Args:
        index: Which of the processes this is.
        count: How many there are.

    Attributes:
        port: Where the watcher of the first process listens; 0 elsewhere.
    """

    def __init__(self, index: int, count: int) -> None:
        errors, own_errors = os.pipe()
        self._watcher = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", watcher.__file__),
                *map(str, (index, count, errors)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[errors],
            text=True,
        )
        assert self._watcher.stdin is not None
        assert self._watcher.stdout is not None
        self._to_watcher = _freed_first(self._watcher.stdin)
        self._from_watcher = self._watcher.stdout
        self.port = int(self._from_watcher.readline()) if index == 0 else 0
        sys.stderr.flush()
        self._terminal = os.dup(2)
        os.dup2(own_errors, 2)
        os.close(errors)
        os.close(own_errors)
        # Before JAX's own, which would wait for the others.
        atexit.register(self._give_up)

    def join(self, host: str, port: int, token: int) -> None:
        """Connects the watchers; waits until all have joined.

        Args:
            host: Host of the first process.
            port: Its `port`.
            token: A secret of the processes.
        """
        print("join", host, port, token, file=self._to_watcher, flush=True)
        self._receive()  # Until all have joined.
        threading.Thread(target=self._receive, daemon=True).start()

    def leave(self) -> None:
        """Ends the watch, in all processes at about the same time."""
        atexit.unregister(self._give_up)
        with suppress(OSError):  # The first one's watcher may be quicker.
            print("leave", file=self._to_watcher, flush=True)
        self._close()

    def _close(self) -> None:
        """Shows the delayed output, once the watcher knows the reason."""
        sys.stderr.flush()
        os.dup2(self._terminal, 2)
        with suppress(OSError):
            self._to_watcher.close()
        self._watcher.wait()

    def _give_up(self) -> None:
        sys.stdout.flush()
        self._close()
        os._exit(watcher.STATUS)

    def _receive(self) -> None:
        """Ends this process on the message of the watcher."""
        if self._from_watcher.readline() == "end\n":
            sys.stdout.flush()
            os._exit(watcher.STATUS)


def _freed_first(pipe: IO[str]) -> IO[str]:
    """Moves a pipe to a number above those of other files.

    Linux frees the files of a killed process from the highest number down.
    Its watcher must hear of its end before the others do, whose processes die
    of it by their sockets: the process whose end is reported first is blamed.
    """
    # Not on Windows, where `recsys train` imports this file as well.
    import fcntl
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    number = most if 0 < most < _FILES else _FILES
    moved = fcntl.fcntl(pipe.fileno(), fcntl.F_DUPFD_CLOEXEC, number - 1)
    pipe.close()
    return os.fdopen(moved, "w")
