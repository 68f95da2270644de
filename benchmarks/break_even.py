"""Measures where sparse execution pays, and prints the constants that say so.

    for backend in tensorflow jax torch; do
        export KERAS_BACKEND=$backend
        python benchmarks/break_even.py > even_$backend.jsonl
        python benchmarks/break_even.py --lists > lists_$backend.jsonl
    done
    python benchmarks/break_even.py --fit even_*.jsonl lists_*.jsonl

The first prints one JSON line for every shape: milliseconds of a mixture,
forward + backward (or `--step forward`), dense and sparse, medians of runs that
take turns, and whether `keras_moe.layers.break_even` as shipped says that
sparse execution pays. `--lists` does so for lists of Dense layers, whose work
`"auto"` does not know. `--planned 2` adds the milliseconds of `"auto"` with
gates that plan for 2 experts per row and select `--k`, as new ones do.

`--fit` prints two lines, of the constants that are shipped and of those that
lose least time: the share of the shapes for which they decide for what was
faster, or within 5 per cent of it; the largest loss, in times the faster way;
and the mean of its logarithm, which is what is made small. Of constants that
are as good as each other, it takes those that are nearest to the shipped ones.
"""

import argparse
import itertools
import json
import math
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import keras
import numpy as np
from execution_variants import ScoredMixture
from execution_variants import Shape
from execution_variants import make_variants
from report import report
from routing_scores import make_scores
from side_by_side import compile_layer
from side_by_side import medians

from keras_moe.layers import break_even

TIE = 1.05
# What is tried: from an eighth of what is shipped to eight times of it.
FACTORS = 2.0 ** np.arange(-3, 3.1, 0.5)
PLANS = [0, *(10.0 ** np.arange(5, 8.6, 0.25))]
SHARES = np.arange(0.05, 1.01, 0.05)

Line = dict[str, Any]


def arguments(shape: Shape, is_list: bool) -> Line:
    """What a mixture of this shape asks `sparse_pays`."""
    return {
        "num_rows": shape.rows,
        "row_values": shape.width * (1 + min(shape.tasks, 2)),
        "num_experts": shape.experts,
        "experts_per_row": min(shape.k * shape.tasks, shape.experts),
        "row_cost": None if is_list else shape.width**2 * shape.layers,
    }


def measure(shape: Shape, options: argparse.Namespace) -> Line:
    variants = (
        _lists(shape) if options.lists else _banks(shape, options.planned)
    )
    steps = {
        name: compile_layer(layer, inputs)[options.step]
        for name, (layer, inputs) in variants
    }
    times = medians(steps, options.runs)
    return {f"{name}_ms": round(time, 4) for name, time in times.items()}


def _banks(shape: Shape, planned: int | None) -> Iterator[tuple[str, Any]]:
    names = ["dense_einsum", "sparse"]
    if planned is not None:
        names.append("auto")
    for name, variant in make_variants(shape, names, planned):
        yield name.split("_")[0], variant


def _lists(shape: Shape) -> Iterator[tuple[str, Any]]:
    scores = make_scores(
        shape.routing, shape.rows, shape.experts, shape.k, shape.tasks
    )
    rows = np.random.default_rng(1).normal(size=(shape.rows, shape.width))
    inputs = [rows.astype("float32"), *scores]
    for name in ("dense", "sparse"):
        experts = [
            keras.layers.Dense(shape.width, activation="relu")
            for _ in range(shape.experts)
        ]
        mixture = ScoredMixture(
            shape.experts, shape.k, shape.tasks, name, experts
        )
        mixture.build(*(array.shape for array in inputs))
        yield name, (mixture, inputs)


def losses(lines: Sequence[Line], **constants: Any) -> np.ndarray:
    """The time that constants lose for each line, in times the faster way."""
    with patch.multiple(break_even, **constants):
        sparse = np.array(
            [break_even.sparse_pays(**line["asked"]) for line in lines], bool
        )
    times = np.array([[line["dense_ms"], line["sparse_ms"]] for line in lines])
    chosen = np.where(sparse, times[:, 1], times[:, 0])
    return np.asarray(chosen / times.min(axis=1))


def fit(lines: Sequence[Line]) -> tuple[Line, Line]:
    """The constants as shipped and as fitted, with what they lose."""
    shipped = {
        name: getattr(break_even, name)
        for name in ("MOVED_VALUE", "READ_MATRIX", "PLAN", "LARGEST_SHARE")
    }
    known = _by_backend(lines, is_list=False)
    unknown = _by_backend(lines, is_list=True)
    fitted = {
        **shipped,
        **_fit_costs(known, shipped),
        "LARGEST_SHARE": shipped["LARGEST_SHARE"]
        | {
            backend: _best(
                of_backend, "LARGEST_SHARE", SHARES, shipped, backend
            )[1]
            for backend, of_backend in unknown.items()
        },
    }
    parts = [*known.items(), *unknown.items()]
    return _judged(parts, shipped), _judged(parts, fitted)


def _by_backend(lines: Sequence[Line], is_list: bool) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        if (line["asked"]["row_cost"] is None) == is_list:
            found.setdefault(line["backend"], []).append(line)
    return found


def _fit_costs(known: dict[str, list[Line]], shipped: Line) -> Line:
    """Those of all backends, and the plan of each for them."""
    if not known:
        return {}
    best: tuple[float, float, Line] = (math.inf, math.inf, {})
    for moved, read in itertools.product(FACTORS, FACTORS):
        constants = {
            "MOVED_VALUE": float(shipped["MOVED_VALUE"] * moved),
            "READ_MATRIX": float(shipped["READ_MATRIX"] * read),
        }
        plans = {
            backend: _best(
                lines, "PLAN", PLANS, {**shipped, **constants}, backend
            )
            for backend, lines in known.items()
        }
        loss = sum(loss for loss, _ in plans.values())
        distance = abs(math.log2(moved)) + abs(math.log2(read))
        if (round(loss, 9), distance) < best[:2]:
            chosen = {backend: plan for backend, (_, plan) in plans.items()}
            constants["PLAN"] = shipped["PLAN"] | chosen
            best = (round(loss, 9), distance, constants)
    return best[2]


def _best(
    lines: Sequence[Line],
    name: str,
    values: Sequence[float] | np.ndarray,
    constants: Line,
    backend: str,
) -> tuple[float, float]:
    """The mean loss of a backend's constant that loses least, and the value."""
    own = constants[name][backend]
    tried = sorted({own, *map(float, values)}, key=lambda one: abs(one - own))
    means = [
        round(
            _mean_log(
                losses(
                    lines,
                    **_for(backend, {**constants, name: {backend: value}}),
                )
            ),
            9,
        )
        for value in tried
    ]
    place = int(np.argmin(means))  # The first of the best: the nearest.
    return means[place], tried[place]


def _for(backend: str, constants: Line) -> Line:
    """As if Keras's backend were this one."""
    running = keras.backend.backend()
    return {
        name: {running: value[backend]}
        if isinstance(value, dict) and backend in value
        else value
        for name, value in constants.items()
    }


def _mean_log(values: np.ndarray) -> float:
    return float(np.log(values).mean())


def _judged(parts: list[tuple[str, list[Line]]], constants: Line) -> Line:
    lost = np.concatenate(
        [losses(lines, **_for(backend, constants)) for backend, lines in parts]
    )
    return {
        **constants,
        "shapes": len(lost),
        "right": round(float((lost <= TIE).mean()), 3),
        "worst_loss": round(float(lost.max()), 2),
        "mean_log_loss": round(_mean_log(lost), 4),
    }


def read_lines(files: Sequence[Path]) -> list[Line]:
    return [
        json.loads(line)
        for file in files
        for line in file.read_text().splitlines()
        if line.startswith("{")
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    integers: Any = {"type": int, "nargs": "+"}
    parser.add_argument("--rows", default=[1, 64, 512, 4096], **integers)
    parser.add_argument("--experts", default=[4, 16, 64], **integers)
    parser.add_argument("--k", default=[1, 2], **integers)
    parser.add_argument("--tasks", default=[1, 2], **integers)
    parser.add_argument("--width", default=[32, 256], **integers)
    parser.add_argument("--layers", default=[1], **integers)
    parser.add_argument(
        "--step",
        default="forward_backward",
        choices=("forward", "forward_backward"),
    )
    parser.add_argument("--lists", action="store_true")
    parser.add_argument("--planned", type=int)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--fit", type=Path, nargs="+", metavar="LINES")
    options = parser.parse_args()
    if options.fit:
        constants = fit(read_lines(options.fit))
        for name, line in zip(("shipped", "fitted"), constants, strict=True):
            print(json.dumps({"constants": name, **line}))
        return
    axes = [getattr(options, axis) for axis in Shape._fields[:-1]]
    for values in itertools.product(*axes):
        shape = Shape(*values, routing="balanced")
        experts_per_row = min(shape.k * shape.tasks, shape.experts)
        if experts_per_row == shape.experts and options.planned is None:
            continue  # Nothing to save: dense, whatever the constants.
        asked = arguments(shape, options.lists)
        times = measure(shape, options)
        report(
            step=options.step,
            asked=asked,
            **times,
            pays=times["sparse_ms"] < times["dense_ms"],
            estimate=break_even.sparse_pays(**asked),
        )


if __name__ == "__main__":
    main()
