r"""Counts how many of the experts behind some labels a gate finds again.

    KERAS_BACKEND=jax python benchmarks/dselect_k_recovery.py \
        --figure dselect_k_recovery.png

DSelect-k's recovery problem (appendix C.2.2, figures 2, C.7 and C.8): the mean
of 4 experts and a logistic unit give the labels. A model has 16 experts, these
4 and 12 others, all frozen, and chooses 4 by a gate that does not look at the
example. 10,000 rows for training and 10,000 for validation, Adam, batches of
256, as published; the learning rate, which the paper searches from 0.1 to 1e-5,
is 0.03. What the paper leaves open:

* Every weight behind the labels is standard normal (as in appendix C.1), drawn
  anew until the rarer label has a quarter of the rows: a sign may be constant.
* The inputs are standard normal, and no unit has a bias.
* The model's logistic unit is trained with the gate.
* The gates' weights begin in U(-0.05, 0.05), DSelect-k's selectors in
  U(-γ/100, γ/100).

Gates: `dselect-k`; `top-k`; `noisy-top-k`, Shazeer's with its noise, on a
constant input. As the experts are frozen, gates do not see each other: one
model trains `--starts` of each kind side by side.

Prints one JSON line per (seed, gate) and a Markdown table of their means:

    found          planted experts among the 4 with the largest weights, of the
                   start with the lowest validation loss,
    selected       experts with a weight of at least 1e-5 there,
    loss           its validation cross-entropy,
    mean_found, mean_selected, mean_loss   the means over the starts,
    all_found      share of the starts that find all 4.

`--figure` draws the expert weights of seed 0 over training, best starts.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pandas as pd
from keras import ops
from report import report
from results_table import results_table

from keras_moe.callbacks import RoutingMonitor
from keras_moe.callbacks import weight_curves
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import TopKGate

NUM_EXPERTS = 16
K = 4
UNITS = 4
NUM_FEATURES = 10
RARER_LABEL = 0.25


@dataclass(frozen=True)
class Problem:
    """Labels and the experts that they come from.

    Attributes:
        inputs: Float32 `(2 * rows, 10)`, for training, then for validation.
        labels: Float32 `(2 * rows, 1)`, 0 or 1.
        kernels: Float32 `(16, 10, 4)`, expert e is `relu(x kernels[e])`.
        planted: Which four experts the labels come from.
    """

    inputs: np.ndarray
    labels: np.ndarray
    kernels: np.ndarray
    planted: np.ndarray


def make_problem(rows: int, seed: int) -> Problem:
    """Draws a problem, with as many rows for training as for validation."""
    generator = np.random.default_rng(seed)
    inputs = generator.standard_normal((2 * rows, NUM_FEATURES), "float32")
    while True:
        kernels = generator.standard_normal(
            (NUM_EXPERTS, NUM_FEATURES, UNITS), "float32"
        )
        unit = generator.standard_normal(UNITS, "float32")
        planted = np.sort(generator.permutation(NUM_EXPERTS)[:K])
        outputs = np.maximum(inputs @ kernels[planted], 0).mean(axis=0)
        labels = (outputs @ unit > 0).astype("float32")
        if RARER_LABEL <= labels.mean() <= 1 - RARER_LABEL:
            return Problem(inputs, labels[:, None], kernels, planted)


def make_gates(gamma: float, entropy_weight: float) -> dict[str, Gate]:
    """One new gate of each kind; their input is a constant 1."""
    return {
        "dselect-k": DSelectKGate(
            NUM_EXPERTS,
            K,
            gamma=gamma,
            entropy_weight=entropy_weight,
            static=True,
        ),
        "top-k": TopKGate(
            NUM_EXPERTS, K, static=True, bias_initializer="random_uniform"
        ),
        "noisy-top-k": TopKGate(
            NUM_EXPERTS,
            K,
            noisy=True,
            use_bias=False,
            kernel_initializer="random_uniform",
        ),
    }


def make_model(
    kernels: np.ndarray, starts: int, create: Callable[[], dict[str, Gate]]
) -> keras.Model:
    """A model of frozen experts; one gate, logistic unit and logit a start."""
    experts = MLPExperts(
        NUM_EXPERTS, UNITS, use_bias=False, trainable=False, name="experts"
    )
    gates = {
        f"{kind} {start}": gate
        for start in range(starts)
        for kind, gate in create().items()
    }
    inputs = keras.Input((NUM_FEATURES,))
    constant = ops.ones_like(inputs[:, :1])
    mixed = MMoE(gates, experts, execution="dense")(inputs, constant)
    # Keras may reorder a dict of symbolic outputs.
    logits = [keras.layers.Dense(1)(mixed[name]) for name in gates]
    model = keras.Model(inputs, ops.concatenate(logits, axis=-1))
    experts.kernels[0].assign(kernels)
    return model


def cross_entropies(labels: Any, logits: Any) -> Any:
    """Per row `(B, 1)` and start `(B, S)`."""
    return ops.subtract(ops.softplus(logits), labels * logits)


def train(
    problem: Problem,
    model: keras.Model,
    learning_rate: float,
    epochs: int,
    every: int,
) -> RoutingMonitor:
    """Trains every start; returns the record of their weights."""
    half = len(problem.inputs) // 2
    model.compile(
        keras.optimizers.Adam(learning_rate),
        # Summed: no start's loss depends on how many there are.
        loss=lambda y, x: ops.sum(cross_entropies(y, x), axis=-1),
    )
    # No gate looks at the example: one is enough to look at.
    monitor = RoutingMonitor(problem.inputs[:1], every=every)
    model.fit(
        problem.inputs[:half],
        problem.labels[:half],
        batch_size=256,
        epochs=epochs,
        verbose=0,
        callbacks=[monitor],
    )
    return monitor


def measure(
    problem: Problem, model: keras.Model, weights: dict[str, np.ndarray]
) -> pd.DataFrame:
    """Returns a row per start: its kind, what it found and its loss.

    Args:
        problem: The problem.
        model: The trained model.
        weights: The final weights of each start, `(16,)`.
    """
    half = len(problem.inputs) // 2
    logits = model.predict(problem.inputs[half:], batch_size=4096, verbose=0)
    losses = cross_entropies(problem.labels[half:], logits)
    final = np.stack(list(weights.values()))
    largest = np.argsort(final, axis=1)[:, -K:]
    return pd.DataFrame(
        {
            "start": list(weights),
            "gate": [start.rsplit(" ", 1)[0] for start in weights],
            "found": np.isin(largest, problem.planted).sum(axis=1),
            "selected": (final >= 1e-5).sum(axis=1),
            "loss": ops.convert_to_numpy(ops.mean(losses, axis=0)),
        }
    )


def summarize(starts: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per gate: its best start, and the means over its starts."""
    rows = []
    for gate, own in starts.groupby("gate", sort=False):
        best = own.loc[own["loss"].idxmin()]
        rows.append(
            {
                "gate": gate,
                "found": int(best["found"]),
                "selected": int(best["selected"]),
                "loss": round(float(best["loss"]), 4),
                "mean_found": round(float(own["found"].mean()), 2),
                "mean_selected": round(float(own["selected"].mean()), 2),
                "mean_loss": round(float(own["loss"].mean()), 4),
                "all_found": round(float((own["found"] == K).mean()), 2),
            }
        )
    return pd.DataFrame(rows)


def draw(monitor: RoutingMonitor, starts: pd.DataFrame, path: str) -> None:
    """Draws the weights of each gate's best start."""
    best = starts.loc[starts.groupby("gate", sort=False)["loss"].idxmin()]
    curves = {
        gate: monitor.weights[start]
        for gate, start in zip(best["gate"], best["start"], strict=True)
    }
    weight_curves(curves, monitor.epochs).savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--learning-rate", type=float, default=0.03)
    parser.add_argument("--gamma", type=float, default=15.0)
    parser.add_argument("--entropy-weight", type=float, default=1e-4)
    parser.add_argument("--every", type=int, default=25, help="epochs a point")
    parser.add_argument("--figure", help="file of the figure")
    options = parser.parse_args()
    summaries = []
    for seed in range(options.seeds):
        begin = time.perf_counter()
        keras.utils.set_random_seed(seed)
        problem = make_problem(options.rows, seed)
        model = make_model(
            problem.kernels,
            options.starts,
            lambda: make_gates(options.gamma, options.entropy_weight),
        )
        monitor = train(
            problem, model, options.learning_rate, options.epochs, options.every
        )
        final = {task: rows[-1] for task, rows in monitor.weights.items()}
        starts = measure(problem, model, final)
        summaries.append(summarize(starts))
        seconds = round(time.perf_counter() - begin, 1)
        for line in summaries[-1].to_dict("records"):
            report(seed=seed, **line, seconds=seconds)
        if options.figure and seed == 0:
            draw(monitor, starts, options.figure)
    table = pd.concat(summaries).groupby("gate", sort=False).mean()
    print(results_table(table.reset_index()))


if __name__ == "__main__":
    main()
