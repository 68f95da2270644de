"""The command line for a process that runs one command after the other.

    python -m recsys.command_server

Starting Python, Keras and its backend takes longer than many a training. The
standard input of this process gets a line of JSON for each command,
`{"arguments": [...], "log": FILE}`; its standard output gets one for each that
has ended, `{"status": 0, "peak_mib": 612.5, "cpu_seconds": 41.2}`,
the last two of the process so far. What a command prints is added to its log.
When the standard input ends, so does the process, at once.

`recsys.processes.command_process.CommandProcess` is the other end.
"""

import json
import os
import queue
import sys
import threading
import time

import psutil

from recsys.cli import run

_Lines = queue.SimpleQueue[str]

# What Linux measures memory in; macOS measures in bytes.
_PER_MIB = 2**20 if sys.platform == "darwin" else 2**10


def main() -> None:
    """Runs commands until the standard input ends."""
    requests: _Lines = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    try:
        while True:
            request = json.loads(requests.get())
            _print_to(request["log"])
            status = run(request["arguments"])
            sys.stdout.flush()
            reply = {
                "status": status,
                "peak_mib": _peak_mib(),
                "cpu_seconds": time.process_time(),
            }
            print(json.dumps(reply), file=replies, flush=True)
            _forget()
    except KeyboardInterrupt:
        os._exit(130)  # Nothing was running.


def _read(requests: _Lines) -> None:
    for line in sys.stdin:
        requests.put(line)
    os._exit(1)


def _print_to(log: str) -> None:
    """Sends all that is printed from now on, by native code too, to a file."""
    sys.stderr.flush()
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def _peak_mib() -> float:
    if sys.platform == "win32":
        peak: int = psutil.Process().memory_info().peak_wset
        return peak / 2**20
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_maxrss / _PER_MIB


def _forget() -> None:
    """Drops the models and names that Keras keeps of the last command."""
    if "keras" in sys.modules:
        import keras

        keras.utils.clear_session()


if __name__ == "__main__":
    main()
