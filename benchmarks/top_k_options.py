"""Times a training step of `TopKGate` with its options, and of `BudgetGate`.

    KERAS_BACKEND=tensorflow python benchmarks/top_k_options.py

Prints one JSON line for every number of experts: medians in milliseconds of
interleaved steps (`train_on_batch`) of a model that is the gate alone, and how
many times as long as the plain gate the others take. In a model with experts
the difference is the same, the ratio smaller.
"""

import argparse
from typing import Any

import keras
import numpy as np
from report import report
from side_by_side import Function
from side_by_side import medians

from keras_moe.layers import BudgetGate
from keras_moe.layers import Gate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate

GROUPS = {"num_groups": 8, "groups_per_example": 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "sigmoid": {"scores": "sigmoid"},
    "bias": {"balance": "bias"},
    "groups": GROUPS,
    "deepseek_v3": {
        "scores": "sigmoid",
        "balance": "bias",
        "route_scale": 2.5,
        **GROUPS,
    },
}


def make_gates(experts: int, k: int) -> dict[str, Gate]:
    """Each option by name, and a budget around all weights of a softmax."""
    gates: dict[str, Gate] = {
        name: TopKGate(experts, k, seed=1, **arguments)
        for name, arguments in OPTIONS.items()
    }
    gates["budget"] = BudgetGate(SoftmaxGate(experts, seed=1), k)
    return gates


def make_step(gate: Gate, rows: int, width: int) -> Function:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, width)).astype("float32")
    y = rng.random(size=(rows, gate.num_experts)).astype("float32")
    inputs = keras.Input((width,))
    model = keras.Model(inputs, gate(inputs))
    model.compile("sgd", "mse")
    return lambda: model.train_on_batch(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experts", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=31)
    options = parser.parse_args()
    for experts in options.experts:
        steps = {
            name: make_step(gate, options.rows, options.width)
            for name, gate in make_gates(experts, options.k).items()
        }
        for step in steps.values():
            step()  # Compiles.
        times = medians(steps, options.runs)
        report(
            experts=experts,
            k=options.k,
            rows=options.rows,
            width=options.width,
            ms=times,
            times_plain={
                name: round(time / times["plain"], 2)
                for name, time in times.items()
            },
        )


if __name__ == "__main__":
    main()
