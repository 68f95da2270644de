"""Shows what the trials of a sweep cost in time and in memory.

    KERAS_BACKEND=torch python benchmarks/tuning_memory.py

Runs a sweep of tiny trainings on generated data and prints a JSON line after
every `--every` trials: the seconds that each of these took, and the resident
memory, in MiB, of the process that sweeps and of the one that trains. The
latter is replaced after `--trainings-each` trials. In the end, the seconds of
computing that each trial took, starts included, which other programs on the
machine do not change much. For Linux.
"""

import argparse
import os
import resource
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from report import report

import recsys
from recsys.api import tune
from recsys.data import synthetic
from recsys.processes.training_processes import TrainingProcesses

FIELDS = {
    "gate": "top-k",
    "num_experts": 4,
    "embedding_dim": 4,
    "expert_units": [8],
    "head_units": [8],
    "unknown_rate": 0.01,
    "train_rows": 512,
    "epochs": 1,
}
SPACE = {"learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"}}


def resident_mib(process: str = "self") -> float:
    pages = int(Path("/proc", process, "statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def training_mib() -> float:
    """The memory of the process that trains, 0 between two of them."""
    children = set()
    for file in Path("/proc/self/task").glob("*/children"):
        children.update(file.read_text().split())
    return max(map(resident_mib, children), default=0.0)


def watch(log: Path, trials: int, every: int) -> None:
    """Reports whenever enough trials are done."""
    start = time.perf_counter()
    for count in range(every, trials + 1, every):
        while not log.is_file() or log.read_bytes().count(b"\n") < count:
            time.sleep(0.1)
        now = time.perf_counter()
        report(
            trials=count,
            seconds_per_trial=round((now - start) / every, 1),
            resident_mib=round(resident_mib(), 1),
            training_mib=round(training_mib(), 1),
        )
        start = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--trainings-each", type=int, default=20)
    options = parser.parse_args()
    tune.TrainingProcesses = partial(
        TrainingProcesses, trainings_each=options.trainings_each
    )
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "data"), Path(folder, "sweep")
        synthetic(num_rows=1000).write(data)
        watcher = threading.Thread(
            target=watch,
            args=(out / "trials.jsonl", options.trials, options.every),
        )
        watcher.start()
        fields = {**FIELDS, "data": str(data), "out": str(out)}
        recsys.tune(fields, options.trials, space=SPACE)
        watcher.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = (used.ru_utime + used.ru_stime) / options.trials
    report(trials=options.trials, cpu_seconds_per_trial=round(seconds, 1))


if __name__ == "__main__":
    main()
