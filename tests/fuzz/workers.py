"""Processes that run cases, and are renewed when one hangs or crashes."""

import multiprocessing
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterable
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.grammars import GRAMMARS
from tests.fuzz.grammars import run_grammar

# Forks processes that have imported everything, and computed nothing.
_PROCESSES = multiprocessing.get_context("forkserver")
MEMORY = 3 << 30  # Bytes that a process may take beside its libraries.
GRAMMAR_SHARE = 0.2  # Of the cases; all others mutate files and options.
RENEWAL = 500  # Cases after which a process is renewed, as what it keeps grows.


@dataclass(frozen=True)
class Result:
    """How a case ended.

    Attributes:
        seed: What the case was made from.
        command: What was run.
        problem: What is wrong, or `None`.
        seconds: How long the command took.
    """

    seed: str
    command: str
    problem: str | None
    seconds: float = 0.0


def run_cases(
    seeds: Iterable[str],
    corpus: Path,
    folder: Path,
    workers: int,
    seconds: float,
) -> Iterator[Result]:
    """Runs cases, and yields how each has ended.

    Args:
        seeds: A seed per case.
        corpus: Folder that `corpus.build` has written.
        folder: Folder to work in.
        workers: How many cases are run at a time.
        seconds: How long a case may take.
    """
    _PROCESSES.set_forkserver_preload(["tests.fuzz.preload"])
    pool = ThreadPoolExecutor(workers)
    free = [Worker(corpus, folder / f"{n:02}") for n in range(workers)]

    def run(seed: str) -> Result:
        worker = free.pop()
        try:
            return worker.run(seed, seconds)
        finally:
            free.append(worker)

    try:
        yield from pool.map(run, seeds)
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in free:
            worker.stop()


class Worker:
    """Runs one case after the other in a process of its own."""

    def __init__(self, corpus: Path, folder: Path) -> None:
        self.corpus, self.folder = corpus, folder
        self.process: Any = None
        self.cases = 0

    def run(self, seed: str, seconds: float) -> Result:
        """Runs the case of a seed."""
        if self.process is None or self.cases >= RENEWAL:
            self._start()
        self.cases += 1
        try:
            self.pipe.send(seed)
            if self.pipe.poll(seconds):
                return self.pipe.recv()
            problem = f"no end within {seconds:g} seconds"
        except (EOFError, ConnectionError):
            self.process.join()
            problem = f"a crash with the status {self.process.exitcode}\n"
            if (file := self.folder / "errors").is_file():
                problem += file.read_text(errors="replace")
        self.stop()
        return Result(seed, "", problem)

    def _start(self) -> None:
        self.stop()
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(
            target=serve, args=(theirs, self.corpus, self.folder), daemon=True
        )
        self.process.start()
        theirs.close()
        self.cases = 0

    def stop(self) -> None:
        """Ends the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def serve(pipe: Connection, corpus: Path, folder: Path) -> None:
    """Runs the cases whose seeds come through a pipe, in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, 2 * (_memory() + MEMORY,))
    files = (folder / "output", folder / "errors")
    write_to(*files)
    while True:
        for file in files:
            os.truncate(file, 0)
        seed = pipe.recv()
        pipe.send(run_case(seed, corpus, folder / "case", *files))


def write_to(output: Path, errors: Path) -> None:
    """Lets two files have what this process prints from now on."""
    sys.stdout.flush()
    for number, file in enumerate((output, errors), start=1):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)


def run_case(
    seed: str, corpus: Path, folder: Path, output: Path, errors: Path
) -> Result:
    """Runs a case in this process, whose output goes to two files."""
    from tests.fuzz.cases import make_case
    from tests.fuzz.cases import run_command
    from tests.fuzz.cases import verdict

    shutil.rmtree(folder, ignore_errors=True)
    random = Random(f"{seed} of a grammar")
    if random.random() < GRAMMAR_SHARE:
        return _grammar_case(seed, random.choice(list(GRAMMARS)), folder)
    case = make_case(seed, corpus, folder)
    start = time.perf_counter()
    status = run_command(case.arguments, folder)
    seconds = time.perf_counter() - start
    sys.stdout.flush()
    sys.stderr.flush()
    texts = [
        file.read_bytes().decode("utf-8", "replace")
        for file in (output, errors)
    ]
    problem = verdict(case, status, *texts)
    command = " ".join(word[:200] for word in case.arguments)
    if case.file is not None:
        command += f" with another {case.file.name}"
    if problem is not None:
        problem += "".join("\n" + text[-2000:] for text in texts)
    return Result(seed, command, problem, seconds)


def _grammar_case(seed: str, name: str, folder: Path) -> Result:
    start = time.perf_counter()
    drawn, problem = run_grammar(name, seed, folder)
    return Result(seed, drawn, problem, time.perf_counter() - start)


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
