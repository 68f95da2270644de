"""Times the MovieLens ranker's predictions, dense against sparse.

    KERAS_BACKEND=tensorflow python benchmarks/inference.py

Prints one JSON line for every (n, model, batch size), where the model is the
live one (its compiled `predict_step`) or, under TensorFlow, what
`recsys export` writes in each of its formats: the median, the 95th and the 99th
percentile of the latency, and rows per second at the median. All models of all
n are called in turn, for `--seconds` each, and `LEAST_CALLS` times at least.
`times_the_first`: the median of the faster execution over that of the first n.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from movielens_ranker import make_ranker
from movielens_ranker import make_rows
from report import report
from side_by_side import Function

EXECUTIONS = ("dense", "sparse")
LEAST_CALLS = 5  # Also of what takes longer than there is time for.


def make_live(ranker: keras.Model, batch: int) -> Function:
    inputs, _ = make_rows(batch)
    return lambda: ranker.predict_on_batch(inputs)


def make_exported(run: Callable[[dict[str, Any]], Any], batch: int) -> Function:
    inputs, _ = make_rows(batch)
    ids = {name: values.astype("int64") for name, values in inputs.items()}
    return lambda: run(ids)


def measure(
    functions: dict[Any, Function], batch: int, seconds: float
) -> dict[Any, Any]:
    """Calls them in turn for a while, and each a few times at least."""
    times: dict[Any, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    stop = time.perf_counter() + seconds
    calls = 0
    while calls < LEAST_CALLS or time.perf_counter() < stop:
        calls += 1
        for name, function in functions.items():
            function()  # As in `side_by_side.medians`.
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {
        name: {
            "calls": len(values),
            "p50_ms": round(1e3 * float(np.percentile(values, 50)), 3),
            "p95_ms": round(1e3 * float(np.percentile(values, 95)), 3),
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
        from recsys.serving.formats import FORMATS

        for form in map(export_format, FORMATS):
            runs = {}
            for name, ranker in rankers.items():
                written = folder / form.name / name
                written.parent.mkdir(exist_ok=True)
                form.write(ServedRanker(ranker), written)
                runs[name] = form.load(written)
            models[form.title] = lambda name, batch, runs=runs: make_exported(
                runs[name], batch
            )
    return models


def report_latencies(
    experts: Sequence[int], gate: str, batches: Sequence[int], seconds: float
) -> None:
    """Prints a line for each batch size, n and model."""
    with tempfile.TemporaryDirectory() as folder:
        models = {}
        for n in experts:
            path = Path(folder) / str(n)
            path.mkdir()
            models |= {
                (n, name): model
                for name, model in make_models(n, gate, path).items()
            }
        for batch in batches:
            calls = {
                (key, execution): models[key](execution, batch)
                for key, execution in itertools.product(models, EXECUTIONS)
            }
            times = measure(calls, batch, seconds * len(models))
            for n, model in models:
                by_execution = {
                    name: times[(n, model), name] for name in EXECUTIONS
                }
                first = {
                    name: times[(experts[0], model), name]
                    for name in EXECUTIONS
                }
                report(
                    model=model,
                    n=n,
                    batch=batch,
                    **by_execution,
                    times_the_first=round(
                        _faster(by_execution) / _faster(first), 2
                    ),
                )


def _faster(by_execution: dict[str, Any]) -> float:
    return float(min(times["p50_ms"] for times in by_execution.values()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experts", default=[16, 64], type=int, nargs="+")
    parser.add_argument("--batch", default=[1, 512, 8192], type=int, nargs="+")
    parser.add_argument("--gate", default="top-k")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    report_latencies(
        options.experts, options.gate, options.batch, options.seconds
    )


if __name__ == "__main__":
    main()
