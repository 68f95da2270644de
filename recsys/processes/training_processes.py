import os
import shutil
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from recsys.config.config_file import read_fields
from recsys.config.train_config import TrainConfig
from recsys.errors import RunError
from recsys.files.json_files import JsonObject
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.processes.command_process import CommandProcess
from recsys.processes.command_process import why_it_failed
from recsys.runs.data_file import check_data
from recsys.runs.run import Run

# What each library calls the number of threads that it may use.
_THREADS = (
    "OMP_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
)

# What a command line ends with after Ctrl-C, and Python while it starts.
_INTERRUPTED = (130, -signal.SIGINT)

# Seconds that a process needs at most to end after its starter.
_PATIENCE = 60.0


class TrainingProcesses:
    """Trains each configuration in a process beside this one.

    Nothing is left of a training in this process, and no training outlives
    it, even if it is killed. What a process has loaded serves the trainings
    that follow, which end bit for bit as in a process of their own; a failure
    ends it. `train` may be called from several threads.

    A context manager: on its way out, all processes end.

    Args:
        at_a_time: How many trainings share the cores. Defaults to 1.
        trainings_each: How many trainings a process gets at most. Defaults to
            20.
        most_mib: The memory in MiB that a process may have needed at its peak
            to be given another training. Defaults to 4096.
        threads: How many threads each of them should use. Unless given, each
            has an equal share of this machine's cores.

    Attributes:
        threads: How many threads each of them should use.
        stopped: A `threading.Event`, set once `stop` is called.

    Raises:
        ValueError: `at_a_time` is below 1.

    Example:
    >>> TrainingProcesses(at_a_time=10**6).threads
    1
    """

    def __init__(
        self,
        at_a_time: int = 1,
        trainings_each: int = 20,
        most_mib: float = 4096.0,
        threads: int | None = None,
    ) -> None:
        if at_a_time < 1:
            raise ValueError(
                f"`at_a_time` must be at least 1. Received: {at_a_time}"
            )
        share = max(1, (os.cpu_count() or 1) // at_a_time)
        self.threads = share if threads is None else threads
        self.trainings_each = trainings_each
        self.most_mib = most_mib
        self.stopped = threading.Event()
        # By the backend that they run on; none is in both.
        self._idle: list[tuple[str | None, CommandProcess]] = []
        self._busy: set[CommandProcess] = set()
        self._lock = threading.Lock()

    def __enter__(self) -> "TrainingProcesses":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        for _, process in self._idle:
            process.wait()

    def train(self, config: TrainConfig) -> None:
        """Trains or resumes a run; does nothing if it is finished.

        Beside the run folder are `<name>.json`, the configuration, and
        `<name>.log`, the output of the process.

        Args:
            config: What to train; `config.out` is the run folder.

        Raises:
            RunError: The training failed, or the folder holds another run, or
                one of data that have changed since.
            KeyboardInterrupt: The training was interrupted, or `stop` called.
        """
        run = Run(config.out)
        # A process whose starter was killed may not be quite dead yet.
        with sole_writer(run.folder, wait=_PATIENCE):
            arguments = _arguments(run, config)
        if not arguments:
            return
        self._finish(run, arguments, config.backend)

    def complete(
        self, run: Run, requested: JsonObject, arguments: Sequence[str]
    ) -> None:
        """Runs a command that fills a run folder, unless it has been filled.

        What an interrupted one has left is removed. The files beside the
        folder, and the errors, are as of `train`.

        Args:
            run: The run.
            requested: The configuration; its "data" and "out" are the data
                folder and the run folder.
            arguments: The words after `recsys`.

        Raises:
            RunError: As of `train`.
            KeyboardInterrupt: As of `train`.
        """
        with sole_writer(run.folder, wait=_PATIENCE):
            request = run.folder.with_suffix(".json")
            if request.is_file():
                _check_request(run, read_json(request), requested)
            write_json(request, requested)
            if run.is_finished:
                check_data(run.data, requested["data"])
                return
            shutil.rmtree(run.folder, ignore_errors=True)
        self._finish(run, arguments, None)

    def _finish(
        self, run: Run, arguments: Sequence[str], backend: str | None
    ) -> None:
        """Runs a command that fills a run folder."""
        log = run.folder.with_suffix(".log")
        code = self._run(arguments, log, backend)
        if self.stopped.is_set() or code in _INTERRUPTED:
            raise KeyboardInterrupt
        if code:
            raise RunError(
                f"{run.folder}: the training failed: "
                f"{why_it_failed(code, log)}; see {log}"
            )

    def stop(self) -> None:
        """Ends all trainings at once; their checkpoints stay."""
        with self._lock:
            self.stopped.set()
            idle = [process for _, process in self._idle]
            for process in [*self._busy, *idle]:
                process.end()

    def _run(
        self, arguments: Sequence[str], log: Path, backend: str | None
    ) -> int:
        """Runs a command in a process; returns what either ends with."""
        process = self._take(backend, log)
        code = None
        try:
            code = process.run(arguments, log)
            return code
        finally:
            with self._lock:
                self._busy.remove(process)
                reusable = (
                    code == 0
                    and process.commands < self.trainings_each
                    and process.peak_mib <= self.most_mib
                    and not self.stopped.is_set()
                )
                if reusable:
                    self._idle.append((backend, process))
            if not reusable:
                process.end()
                process.wait()

    def _take(self, backend: str | None, log: Path) -> CommandProcess:
        """Returns an idle process, or else a new one, as busy."""
        with self._lock:
            if self.stopped.is_set():
                raise KeyboardInterrupt
            unsuitable = []
            while self._idle:
                of, process = self._idle.pop()
                if of == backend and process.is_alive:
                    break
                unsuitable.append(process)
            else:
                environment = dict.fromkeys(_THREADS, str(self.threads))
                process = CommandProcess(environment, log)
            self._busy.add(process)
        for unsuited in unsuitable:
            unsuited.end()
            unsuited.wait()
        return process


def _check_request(run: Run, known: JsonObject, requested: JsonObject) -> None:
    """Raises RunError where a folder is of another configuration."""
    # The folder may have been moved since then.
    if {**known, "out": requested["out"]} != requested:
        raise RunError(
            f"{run.folder}: the run was started with another configuration; "
            "choose another folder"
        )


def _arguments(run: Run, config: TrainConfig) -> list[str]:
    """The command that trains, or goes on; none if the run is finished."""
    request = run.folder.with_suffix(".json")
    requested = config.to_mapping()
    begun = request.is_file()
    if begun:
        _check_request(run, read_fields(request), requested)
    write_json(request, requested)
    if run.is_finished:
        check_data(run.data, config.data)
        return []
    if begun and not run.config.is_file():
        # It was killed before there was anything to resume.
        shutil.rmtree(run.folder, ignore_errors=True)
    options = ["--resume"] if run.config.is_file() else []
    return ["train", "--config", str(request), *options]
