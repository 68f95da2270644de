"""Shows that the memory of a sweep does not grow from trial to trial.

    KERAS_BACKEND=torch python benchmarks/tuning_memory.py

Runs a sweep of tiny trainings on generated data and prints a JSON line after
every `--every` trials: the resident memory of the process that sweeps, in MiB.
Each trial is trained in a process of its own. For Linux.
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

from report import report

import recsys
from recsys.data import synthetic

FIELDS = {
    "gate": "top-k",
    "num_experts": 4,
    "embedding_dim": 4,
    "expert_units": [8],
    "head_units": [8],
    "train_rows": 512,
    "epochs": 1,
}
SPACE = {"learning_rate": {"min": 1e-4, "max": 1e-2, "sampling": "log"}}


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def watch(log: Path, trials: int, every: int) -> None:
    """Reports the memory of this process whenever enough trials are done."""
    for count in range(every, trials + 1, every):
        while not log.is_file() or log.read_bytes().count(b"\n") < count:
            time.sleep(0.1)
        report(trials=count, resident_mib=round(resident_mib(), 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--every", type=int, default=10)
    options = parser.parse_args()
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


if __name__ == "__main__":
    main()
