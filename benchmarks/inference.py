"""Times the MovieLens ranker's predictions, dense against sparse.

    KERAS_BACKEND=tensorflow python benchmarks/inference.py

Prints one JSON line for every (n, model, batch size), where the model is the
live one (its compiled `predict_step`) or, under TensorFlow, the SavedModel that
`recsys export` writes: the median and the 99th percentile of the latency, and
rows per second.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from movielens_ranker import make_ranker
from movielens_ranker import make_rows
from report import report
from side_by_side import Function

EXECUTIONS = ("dense", "sparse")


def make_live(ranker: keras.Model, batch: int) -> Function:
    inputs, _ = make_rows(batch)
    return lambda: ranker.predict_on_batch(inputs)


def make_saved(folder: str, batch: int) -> Function:
    import tensorflow as tf

    serve = tf.saved_model.load(folder).signatures["serving_default"]
    inputs, _ = make_rows(batch)
    ids = {name: tf.constant(x, tf.int64) for name, x in inputs.items()}
    return lambda: [output.numpy() for output in serve(**ids).values()]


def measure(
    functions: dict[str, Function], batch: int, seconds: float
) -> dict[str, Any]:
    """Calls them in turn for a while."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for name, function in functions.items():
            function()  # As in `side_by_side.medians`.
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {
        name: {
            "p50_ms": round(1e3 * float(np.percentile(values, 50)), 3),
            "p99_ms": round(1e3 * float(np.percentile(values, 99)), 3),
            "rows_a_second": round(batch / float(np.median(values))),
        }
        for name, values in times.items()
    }


def make_models(
    num_experts: int, gate: str, folder: Path
) -> dict[str, Callable[[str, int], Function]]:
    """For each model: makes a call of an execution with a batch size."""
    rankers = {
        execution: make_ranker(
            gate=gate, num_experts=num_experts, execution=execution
        )
        for execution in EXECUTIONS
    }
    models: dict[str, Callable[[str, int], Function]] = {
        "live": lambda name, batch: make_live(rankers[name], batch)
    }
    if keras.backend.backend() == "tensorflow":
        from recsys.exporting import export_format
        from recsys.exporting.served_ranker import ServedRanker

        saved_model = export_format("tf_saved_model")
        for name, ranker in rankers.items():
            saved_model.write(ServedRanker(ranker), folder / name)
        models["SavedModel"] = lambda name, batch: make_saved(
            str(folder / name), batch
        )
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", default=[16, 64], type=int, nargs="+")
    parser.add_argument("--batch", default=[1, 512, 8192], type=int, nargs="+")
    parser.add_argument("--gate", default="top-k")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    for num_experts in options.experts:
        with tempfile.TemporaryDirectory() as folder:
            models = make_models(num_experts, options.gate, Path(folder))
            for model, batch in itertools.product(models, options.batch):
                calls = {
                    execution: models[model](execution, batch)
                    for execution in EXECUTIONS
                }
                times = measure(calls, batch, options.seconds)
                report(model=model, n=num_experts, batch=batch, **times)


if __name__ == "__main__":
    main()
