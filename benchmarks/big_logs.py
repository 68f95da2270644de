"""Trains one pass over a planted log that is read as it is needed.

    KERAS_BACKEND=jax python benchmarks/big_logs.py --out logs

Has `planted_log.py` write `--rows` rows, of which the first `--train-rows` are
trained on; parts that are there are not written again.

Prints a JSON line for each of: writing; reading the training split unit by
unit, in the order of an epoch, all values checked, and the same with features
encoded, for `--read-rows` rows; and training, in a process of its own. Of that,
`phases` are the seconds and the peak of the resident memory, in MiB, of each
part of the work. `state_mib` are all weights with the optimizer's state, nearly
all of it tables, `above_mib` is what the peak has above that, and
`allowed_mib` what it may have: a third of it, and 2 GiB. `input_share` is how
much of the time of the steps they waited for batches (with TensorFlow, whose
batches are read ahead, how long the reading took). For Linux.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from report import report

import recsys
from recsys.api import train as stage
from recsys.data.split_dataset import read_schema
from recsys.data.streaming.epoch_order import EpochOrder
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.features.feature import sharing_last
from recsys.measuring.sample import Sample
from recsys.training import train_model
from recsys.training.batches import POOL_ROWS
from recsys.training.batches import StreamedBatches
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.progress_line import Stopwatch
from recsys.training.callbacks.validation import Validation


def write_log(options: argparse.Namespace) -> None:
    """Writes the log in a process of its own, and says how long it took."""
    command = [sys.executable, str(Path(__file__).with_name("planted_log.py"))]
    for name in ("out", "rows", "train_rows", "part_rows", "users", "items"):
        command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
    start = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - start
    files = (options.out / "log").glob("*.parquet")
    written = sum(file.stat().st_size for file in files)
    report(
        what="write",
        rows=options.rows,
        seconds=round(seconds, 1),
        bytes_per_row=round(written / options.rows, 1),
    )


def read_alone(options: argparse.Namespace) -> None:
    """Reads rows in the order of an epoch, as they are and encoded."""
    schema = read_schema(options.out / "data")
    stream = SplitStream(options.out / "data", "train", schema.columns)
    kinds, fitted = schema.features, {}
    for name in sharing_last(kinds):
        parts = (stream.read(unit)[name] for unit in stream.units[:8])
        fitted[name] = kinds[name].fit(parts, fitted)

    def encoded(unit: int) -> Any:
        rows = stream.read(stream.units[unit])
        return (
            {name: kind.encode(rows[name]) for name, kind in fitted.items()},
        )

    for what, load in {
        "read": lambda unit: stream.read(stream.units[unit]),
        "read and encode": encoded,
    }.items():
        rows = 0
        order = EpochOrder(stream.sizes, POOL_ROWS, seed=0, epoch=0)
        start = time.perf_counter(), time.process_time()
        for unit in itertools.chain.from_iterable(order.pools):
            load(unit)
            rows += stream.sizes[unit]
            if rows >= options.read_rows:
                break
        wall, cpu = time.perf_counter(), time.process_time()
        report(
            what=what,
            rows=rows,
            columns=len(schema.columns),
            rows_per_second=round(rows / (wall - start[0])),
            rows_per_cpu_second=round(rows / (cpu - start[1])),
        )


class Phases:
    """Seconds and peak memory, in MiB, of what a process does in turn."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.peaks: dict[str, float] = defaultdict(float)
        self.current = "start"
        self._since = time.perf_counter()

    def enter(self, phase: str) -> str:
        """Ends the phase that there is; returns it."""
        before, now = self.current, time.perf_counter()
        self.seconds[before] += now - self._since
        self.peaks[before] = max(self.peaks[before], peak_mib())
        print(f"{before}: {peak_mib():.0f} MiB", file=sys.stderr, flush=True)
        Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak.
        self.current, self._since = phase, now
        return before

    def follow(self, owner: Any, name: str, phase: str) -> None:
        """Makes a function or a method a phase."""
        function = getattr(owner, name)

        def followed(*args: Any, **kwargs: Any) -> Any:
            before = self.enter(phase)
            try:
                return function(*args, **kwargs)
            finally:
                self.enter(before)

        setattr(owner, name, followed)

    def as_dict(self) -> dict[str, list[float]]:
        return {
            phase: [round(self.seconds[phase], 1), round(peak)]
            for phase, peak in self.peaks.items()
        }


def peak_mib() -> float:
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = [line for line in status if line.startswith("VmHWM")]
    return int(peak.split()[1]) / 1024


class Waiting:
    """Adds up how long batches take that training asks for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        take = StreamedBatches.__getitem__

        def timed(batches: StreamedBatches, index: int) -> Any:
            start = time.perf_counter()
            try:
                return take(batches, index)
            finally:
                self.seconds += time.perf_counter() - start

        StreamedBatches.__getitem__ = timed  # type: ignore[method-assign]


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Trains one pass; returns what it took."""
    phases, waiting = Phases(), Waiting()
    if options.steps is not None:
        whole = StreamedBatches.__len__
        StreamedBatches.__len__ = (  # type: ignore[method-assign]
            lambda batches: min(whole(batches), options.steps)
        )
    bytes_held = []
    save = Checkpoint.on_epoch_end

    def measured(checkpoint: Checkpoint, *args: Any) -> None:
        # The steps begin with the first wait of the epoch, and end before this.
        held = [*checkpoint.model.variables]
        held += checkpoint.model.optimizer.variables
        bytes_held.append(sum(nbytes(variable) for variable in held))
        save(checkpoint, *args)

    Checkpoint.on_epoch_end = measured  # type: ignore[method-assign]
    waited = []
    begin, end = Stopwatch.on_epoch_begin, Stopwatch.on_epoch_end

    def begins(watch: Stopwatch, *args: Any) -> None:
        phases.enter("steps")
        waiting.seconds = 0.0
        begin(watch, *args)

    def ends(watch: Stopwatch, *args: Any) -> None:
        end(watch, *args)
        waited.append(waiting.seconds)
        phases.enter("other")

    Stopwatch.on_epoch_begin = begins  # type: ignore[method-assign]
    Stopwatch.on_epoch_end = ends  # type: ignore[method-assign]
    phases.follow(StreamedDataset, "read", "check all rows")
    phases.follow(stage, "_check_labels", "check labels")
    phases.follow(train_model, "build_model", "fit features and build")
    phases.follow(train_model, "write_data", "fingerprint")
    phases.follow(Sample, "of", "sample")
    phases.follow(Validation, "on_epoch_end", "validate")
    phases.follow(Checkpoint, "_save", "checkpoint")
    phases.follow(stage.Run, "save_model", "save the model")
    phases.follow(stage, "write_outcome", "evaluate")
    phases.enter("other")
    with tempfile.TemporaryDirectory(dir=options.out) as folder:
        out = Path(folder, "run")
        metrics = recsys.train(
            {
                "data": str(options.out / "data"),
                "out": str(out),
                "streaming": True,
                "gate": "top-k",
                "num_experts": 16,
                "k": 2,
                "embedding_dim": options.width,
                "expert_units": [32],
                "expert_dropout": 0.0,
                "head_units": [16],
                "learning_rate": 1e-3,
                "table_optimizer": options.table_optimizer,
                "table_learning_rate": options.table_learning_rate,
                "batch_size": options.batch,
                "epochs": 1,
            }
        )
    phases.enter("end")
    state, peak = bytes_held[0] / 2**20, max(phases.peaks.values())
    rows = options.train_rows // options.batch * options.batch
    if options.steps is not None:
        rows = min(rows, options.steps * options.batch)
    return {
        "rows": rows,
        "of_rows": options.train_rows,
        "rows_per_second": round(rows / phases.seconds["steps"]),
        "input_share": round(waited[0] / phases.seconds["steps"], 4),
        "peak_mib": round(peak),
        "state_mib": round(state),
        "above_mib": round(peak - state),
        "allowed_mib": round(state / 3 + 2048),
        "auc": {
            task: round(measured["auc"], 4)
            for task, measured in metrics["test"]["tasks"].items()
        },
        "phases": phases.as_dict(),
    }


def nbytes(variable: Any) -> int:
    size = int(np.prod(variable.shape, dtype=np.int64))
    return size * np.dtype(variable.dtype).itemsize


def train_apart() -> dict[str, Any]:
    """What `train` returns in a process of its own."""
    command = [sys.executable, *sys.argv, "--only-train"]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--train-rows", type=int, default=2 * 10**7)
    parser.add_argument("--read-rows", type=int, default=4 * 10**6)
    parser.add_argument("--part-rows", type=int, default=10**6)
    parser.add_argument("--users", type=int, default=10**7)
    parser.add_argument("--items", type=int, default=10**6)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--table-optimizer", default="lazy-adam")
    parser.add_argument("--table-learning-rate", type=float, default=3e-3)
    parser.add_argument("--only-train", action="store_true")
    options = parser.parse_args()
    if options.only_train:
        print(json.dumps(train(options)))
        return
    write_log(options)
    read_alone(options)
    report(what="train", batch=options.batch, **train_apart())


if __name__ == "__main__":
    main()
