"""Times a training step over embedding tables of 10,000 to 10,000,000 ids.

    KERAS_BACKEND=torch python benchmarks/vocabulary.py --ids 10000 1000000

Prints one JSON line for every number of ids and every way to train the table:
Keras's Adam, and `lazy-adam` and `rowwise-adagrad` of `recsys.tables`. The
model is the table, of `--width`, and one dense layer; a batch has `--batch`
ids, drawn evenly from all, so that a large table is read at new places in
every step. Each line is of a process of its own: the medians of `--runs` times
`fit` over `--steps` steps, in milliseconds a step, of the processor's time
(`cpu_ms`) and of the clock (`wall_ms`), the peak of its resident memory in MiB
with the table's own size, and how many processes wanted a core before (`load`).

Adam is left out where the table, its moments and its gradient would take more
than `--largest-dense` GiB. `vocabulary_figure.py` draws the lines. For Linux.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import keras
import numpy as np
from report import report

from recsys.config.optimizers import TABLE_OPTIMIZERS
from recsys.tables import TableEmbedding
from recsys.tables import TableTraining
from recsys.training.compile_model import create_optimizer


class TableModel(TableTraining, keras.Model):
    """A functional model whose table may be trained by rows."""


def make_model(rows: int, optimizer: str, width: int) -> keras.Model:
    ids = keras.Input((), dtype="int32")
    # Written, as a trained table is, and quickly: a zero may take no memory.
    table = TableEmbedding(rows, width, embeddings_initializer="ones")
    outputs = keras.layers.Dense(1, activation="sigmoid")(table(ids))
    model = TableModel(ids, outputs)
    model.compile(create_optimizer("adam", 1e-3, optimizer), "bce")
    # As `recsys train` does; `fit` would on TensorFlow take the memory twice.
    model.optimizer.build(model.trainable_variables)
    return model


def measure(
    rows: int, optimizer: str, options: argparse.Namespace
) -> dict[str, float]:
    """Milliseconds a step, and the peak memory of this process."""
    model = make_model(rows, optimizer, options.width)
    rng = np.random.default_rng(0)
    ids = rng.integers(0, rows, options.steps * options.batch, np.int32)
    labels = (ids % 2).astype(np.float32)[:, None]

    def fit(steps: int) -> None:
        examples = slice(steps * options.batch)
        model.fit(
            ids[examples],
            labels[examples],
            batch_size=options.batch,
            shuffle=False,
            verbose=0,
        )

    fit(2)  # Compiles.
    spent = []
    for _ in range(options.runs):
        start = time.process_time(), time.perf_counter()
        fit(options.steps)
        end = time.process_time(), time.perf_counter()
        spent.append([b - a for a, b in zip(start, end, strict=True)])
    cpu, wall = (
        1e3 * statistics.median(times) / options.steps
        for times in zip(*spent, strict=True)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "cpu_ms": round(cpu, 2),
        "wall_ms": round(wall, 2),
        "peak_mib": round(peak),
    }


def measure_apart(
    rows: int, optimizer: str, options: argparse.Namespace
) -> dict[str, float]:
    """What `measure` returns in a process of its own."""
    command = [sys.executable, __file__, "--only", str(rows), optimizer]
    for name in ("width", "batch", "steps", "runs"):
        command += [f"--{name}", str(getattr(options, name))]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def dense_gib(rows: int, width: int) -> float:
    """A table, two moments and a gradient, in float32."""
    return 4 * rows * width * 4 / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--ids", type=int, nargs="+", default=[10**4, 10**5, 10**6, 10**7]
    )
    parser.add_argument(
        "--optimizers",
        nargs="+",
        default=list(TABLE_OPTIMIZERS),
        choices=TABLE_OPTIMIZERS,
    )
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--largest-dense", type=float, default=4.0)
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        rows, optimizer = options.only
        print(json.dumps(measure(int(rows), optimizer, options)))
        return
    for rows in options.ids:
        for optimizer in options.optimizers:
            too_large = dense_gib(rows, options.width) > options.largest_dense
            if optimizer == "adam" and too_large:
                continue
            load = os.getloadavg()[0]
            report(
                ids=rows,
                optimizer=optimizer,
                width=options.width,
                batch=options.batch,
                **measure_apart(rows, optimizer, options),
                table_mib=round(rows * options.width * 4 / 2**20),
                load=round(load, 1),
            )


if __name__ == "__main__":
    main()
