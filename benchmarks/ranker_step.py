r"""Times a training step of the MovieLens ranker, dense, sparse, at its limit.

    KERAS_BACKEND=tensorflow python benchmarks/ranker_step.py

Forward, backward and Adam, two tasks with a gate each, experts Dense 256 with
dropout. Prints one JSON line for every (gate, n, batch size): milliseconds a
step, the median of several epochs of `--steps` steps that the executions take
in turn.

The limit is the same model and `fit` without gates, its experts on equal
groups, with an Adam that passes over every weight once (`ranker_limit.py`). It
has all that a step must do, and nothing that depends on who chose whom: the
input, the lookup, the pairs' matmuls with dropout, heads, losses, all gradients
and the update of all weights. `times_the_limit` is what routing and the
optimizer's other passes cost, by the faster of two limits: the experts in one
batched matmul, or one by one.

    KERAS_BACKEND=tensorflow python benchmarks/ranker_step.py \
        --gate comet --execution sparse --batch 512 --published CHECKOUT

times the published COMET code beside it, in a process of its own that takes its
turns. CHECKOUT is a clone of https://github.com/mazumder-lab/COMET; `tf_keras`
has to be installed as well. `published_step.py` says what is run of it. With
`--execution sparse` COMET runs from the first step on as it does once it has
become sparse.
"""

import argparse
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
from movielens_ranker import make_ranker
from movielens_ranker import make_rows
from ranker_limit import make_limit
from report import report
from side_by_side import Function
from side_by_side import medians

from recsys.models.feeding import feed
from recsys.models.row_encoder import training_arrays
from recsys.training.batches import TrainingBatches

LIMITS = ("limit", "limit_one_by_one")


def make_epoch(ranker: keras.Model, batch: int, steps: int) -> Function:
    """Trains for an epoch; as `recsys train` does, input and all."""
    inputs, labels = make_rows(batch * steps)
    columns = {task: values[:, 0] for task, values in labels.items()}
    batches = TrainingBatches(training_arrays(inputs, columns), batch, seed=0)
    return lambda: ranker.fit(feed(batches), shuffle=False, verbose=0)


def make_model(
    execution: str, gate: str, num_experts: int, batch: int
) -> tuple[keras.Model, float | None]:
    """The model, and for limits their experts per row."""
    if execution not in LIMITS:
        return make_ranker(
            gate=gate, num_experts=num_experts, execution=execution
        ), None
    ranker = make_ranker(gate=gate, num_experts=num_experts)
    inputs, _ = make_rows(batch)
    limit, pairs = make_limit(ranker, inputs, execution == "limit_one_by_one")
    return limit, round(pairs / batch, 2)


@contextmanager
def published_epoch(
    gate: str, num_experts: int, batch: int, options: argparse.Namespace
) -> Iterator[Function]:
    """An epoch of the published code, in a process that waits otherwise."""
    script = Path(__file__).with_name("published_step.py")
    settings = {
        "gate": gate,
        "experts": num_experts,
        "batch": batch,
        "steps": options.steps,
    }
    command = [sys.executable, str(script), str(options.published)]
    command += [f"--{name}={value}" for name, value in settings.items()]
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1"}
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def epoch() -> None:
            print(file=requests, flush=True)
            if not answers.readline():
                raise RuntimeError(f"{script.name} has ended, see above")

        yield epoch
        requests.close()


def measure(
    gate: str, num_experts: int, batch: int, options: argparse.Namespace
) -> dict[str, Any]:
    models = {
        execution: make_model(execution, gate, num_experts, batch)
        for execution in options.execution
    }
    epochs = {
        execution: make_epoch(model, batch, options.steps)
        for execution, (model, _) in models.items()
    }
    with ExitStack() as processes:
        if options.published is not None:
            epochs["published"] = processes.enter_context(
                published_epoch(gate, num_experts, batch, options)
            )
        times = medians(epochs, options.runs)
    result: dict[str, Any] = {
        f"{name}_ms": round(t / options.steps, 2) for name, t in times.items()
    }
    if {"dense", "sparse"} <= set(times):
        ratio = times["dense"] / times["sparse"]
        result["faster_than_dense"] = round(ratio, 2)
    if {"published", "sparse"} <= set(times):
        ratio = times["published"] / times["sparse"]
        result["faster_than_published"] = round(ratio, 2)
    limits = {name: times[name] for name in LIMITS if name in times}
    if limits and "sparse" in times:
        ratio = times["sparse"] / min(limits.values())
        result["times_the_limit"] = round(ratio, 2)
        result["experts_per_row"] = models[next(iter(limits))][1]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gate", default=["top-k"], nargs="+")
    parser.add_argument("--experts", default=[16, 64], type=int, nargs="+")
    parser.add_argument("--batch", default=[512, 2048], type=int, nargs="+")
    parser.add_argument(
        "--execution", default=["dense", "sparse", *LIMITS], nargs="+"
    )
    parser.add_argument("--published", type=Path, metavar="CHECKOUT")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    grid = itertools.product(options.gate, options.experts, options.batch)
    for gate, num_experts, batch in grid:
        times = measure(gate, num_experts, batch, options)
        report(gate=gate, n=num_experts, batch=batch, **times)


if __name__ == "__main__":
    main()
