import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from recsys.config import TrainConfig
from recsys.config_file import read_fields
from recsys.errors import RunError
from recsys.json_files import write_json
from recsys.run import Run

# What each library calls the number of threads that it may use.
_THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)

# What a command line ends with after Ctrl-C.
_INTERRUPTED = 130


class TrainingProcesses:
    """Trains each configuration in a fresh process.

    Nothing is left of a training in this process, and no training outlives
    it, even if it is killed. `train` may be called from several threads.

    Args:
        at_a_time: How many trainings share the cores. Defaults to 1.

    Attributes:
        threads: How many threads each of them should use.
        stopped: A `threading.Event`, set once `stop` is called.

    Raises:
        ValueError: `at_a_time` is below 1.

    Example:
    >>> TrainingProcesses(at_a_time=10**6).threads
    1
    """

    def __init__(self, at_a_time: int = 1) -> None:
        if at_a_time < 1:
            raise ValueError(
                f"`at_a_time` must be at least 1. Received: {at_a_time}"
            )
        self.threads = max(1, (os.cpu_count() or 1) // at_a_time)
        self.stopped = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def train(self, config: TrainConfig) -> None:
        """Trains, or goes on with what was begun; nothing if it is finished.

        Beside the run folder stand `<name>.json`, what is asked for, and
        `<name>.log`, what the process has printed.

        Args:
            config: What to train; `config.out` is the run folder.

        Raises:
            RunError: The training failed, or the folder holds another run.
            KeyboardInterrupt: The training was interrupted, or `stop` called.
        """
        run = Run(config.out)
        request = run.folder.with_suffix(".json")
        asked = config.to_mapping()
        begun = request.is_file()
        # The folder may have been moved since then.
        if begun and read_fields(request) | {"out": asked["out"]} != asked:
            raise RunError(
                f"{run.folder}: another configuration is asked for than the "
                "run was begun with; choose another folder"
            )
        write_json(request, asked)
        if run.is_finished:
            return
        if begun and not run.config.is_file():
            # It was killed before there was anything to go on with.
            shutil.rmtree(run.folder, ignore_errors=True)
        options = ["--resume"] if run.config.is_file() else []
        log = run.folder.with_suffix(".log")
        code = self._run(["train", "--config", str(request), *options], log)
        if self.stopped.is_set() or code == _INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RunError(
                f"{run.folder}: the training failed: {_reason(code, log)}; "
                f"see {log}"
            )

    def stop(self) -> None:
        """Ends all trainings at once; their checkpoints stay."""
        with self._lock:
            self.stopped.set()
            for process in self._running:
                assert process.stdin is not None
                process.stdin.close()

    def _run(self, arguments: list[str], log: Path) -> int:
        """Runs a command line in a process; returns what it ends with."""
        with log.open("ab") as output:
            with self._lock:
                if self.stopped.is_set():
                    raise KeyboardInterrupt
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "recsys.child_process"),
                        *arguments,
                    ],
                    env={
                        **dict.fromkeys(_THREADS, str(self.threads)),
                        **os.environ,
                    },
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                self._running.add(process)
            try:
                with process:
                    return process.wait()
            finally:
                with self._lock:
                    self._running.remove(process)


def _reason(code: int, log: Path) -> str:
    """Why a process failed: its error, or else the last that it said."""
    if code < 0:
        return f"killed by signal {-code}"
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    # Libraries may complain after it, while the interpreter ends.
    errors = [line for line in said if line.startswith("error: ")]
    if not said:
        return f"status {code}"
    return (errors or said)[-1].removeprefix("error: ")
