r"""Compares static gates on tasks that are known mixtures of known experts.

    KERAS_BACKEND=jax python benchmarks/planted_tasks.py --tasks 16 32 64 128 \
        --figure planted_tasks.png --curves planted_weights.png

The synthetic study of DSelect-k (appendix C.1, figure C.5): T regression tasks
in groups of 16, an MMoE with T / 4 experts, each the sum of 4 ReLU units, and a
static gate per task with k = 4. A gate has found the structure when the tasks
of a group share their experts and tasks of different groups do not. Batch size
and optimizer are those of appendix D.4. Where several values are given for a
hyperparameter, all combinations are trained, and the one with the lowest
validation MSE is reported among those that select k experts per task or fewer,
if there is any (as section 3.1.3 disregards gates that have not settled).

Prints one JSON line per (tasks, seed, gate) and a Markdown table of means:

    test_mse       mean over the tasks,
    related        Jaccard index of the experts of two tasks of a group,
    unrelated      the same for two groups,
    experts        experts that a task selects.

`--figure` draws the first three over the number of tasks, beside a gate that
chooses k experts at random; `--curves` the expert weights after each epoch, for
the first task of up to four groups (as figures 2 and C.6).
"""

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import comb
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
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.metrics import jaccard_index
from recsys.data.planted_tasks import EXPERTS_PER_GROUP
from recsys.data.planted_tasks import TASKS_PER_GROUP
from recsys.data.planted_tasks import UNITS
from recsys.data.planted_tasks import PlantedTasks
from recsys.data.planted_tasks import planted_tasks

K = EXPERTS_PER_GROUP

Settings = dict[str, float]


def _dselect_k(num_experts: int, settings: Settings) -> Gate:
    return DSelectKGate(
        num_experts,
        K,
        gamma=settings["gamma"],
        entropy_weight=settings["entropy_weight"],
        static=True,
    )


def _top_k(num_experts: int, settings: Settings) -> Gate:
    # Drawn as DSelect-k's softmax: from zeros, all tasks would begin with the
    # same experts, those of the lowest numbers.
    return TopKGate(
        num_experts, K, static=True, bias_initializer="random_uniform"
    )


def _softmax(num_experts: int, settings: Settings) -> Gate:
    return SoftmaxGate(num_experts, static=True)


@dataclass(frozen=True)
class Competitor:
    """A kind of gate, and the hyperparameters that it is tuned over."""

    create: Callable[[int, Settings], Gate]
    tuned: tuple[str, ...] = ("learning_rate",)


COMPETITORS = {
    "dselect-k": Competitor(
        _dselect_k, ("learning_rate", "gamma", "entropy_weight")
    ),
    "top-k": Competitor(_top_k),
    "softmax": Competitor(_softmax),
}


@dataclass(frozen=True)
class Trained:
    """A trained model, and each task's expert weights epoch by epoch."""

    settings: Settings
    model: keras.Model
    weights: np.ndarray  # (T, epochs + 1, n)

    @property
    def experts(self) -> float:
        """Experts that a task selects in the end, the mean over the tasks."""
        return float((self.weights[:, -1] >= 1e-5).sum(axis=1).mean())

    def mse(self, rows: tuple[np.ndarray, np.ndarray]) -> float:
        inputs, labels = rows
        predictions = self.model.predict(inputs, batch_size=4096, verbose=0)
        return float(np.mean((predictions - labels) ** 2))


def make_model(
    num_tasks: int, num_features: int, create: Callable[[int], Gate]
) -> keras.Model:
    """An MMoE like the one behind the data: `(B, D)` to `(B, T)`."""
    num_experts = num_tasks // TASKS_PER_GROUP * EXPERTS_PER_GROUP
    inputs = keras.Input((num_features,))
    units = MMoE(
        [create(num_experts) for _ in range(num_tasks)],
        MLPExperts(num_experts, UNITS, activation="relu", use_bias=False),
    )(inputs)
    # A mixture of sums of units is the sum of the mixture's units.
    return keras.Model(inputs, ops.sum(ops.stack(units, axis=1), axis=-1))


def squared_error(labels: Any, predictions: Any) -> Any:
    """The sum over the tasks, beside which each gate's entropy is added."""
    return ops.sum(ops.square(labels - predictions), axis=-1)


def train(
    planted: PlantedTasks,
    competitor: Competitor,
    settings: Settings,
    epochs: int,
    seed: int,
) -> Trained:
    """Trains one model from its own random start."""
    keras.utils.set_random_seed(seed)
    model = make_model(
        planted.labels.shape[1],
        planted.inputs.shape[1],
        lambda num_experts: competitor.create(num_experts, settings),
    )
    model.compile(
        keras.optimizers.Adam(settings["learning_rate"]), loss=squared_error
    )
    # A static gate weighs every row alike: one is enough to look at.
    monitor = RoutingMonitor(planted.inputs[:1])
    model.fit(
        *planted.split("train"),
        batch_size=256,
        epochs=epochs,
        verbose=0,
        callbacks=[monitor],
    )
    weights = [
        monitor.weights[str(task)] for task in range(len(planted.groups))
    ]
    return Trained(settings, model, np.stack(weights))


def tune(
    planted: PlantedTasks,
    competitor: Competitor,
    grid: dict[str, list[float]],
    epochs: int,
    seed: int,
) -> Trained:
    """Trains all combinations of the grid and returns the best one."""
    combinations = itertools.product(*(grid[name] for name in competitor.tuned))
    trained = (
        train(
            planted,
            competitor,
            dict(zip(competitor.tuned, values, strict=True)),
            epochs,
            seed,
        )
        for values in combinations
    )
    validation = planted.split("validation")
    return min(trained, key=lambda one: (one.experts > K, one.mse(validation)))


def expected_jaccard(num_experts: int, k: int) -> float:
    """The mean index of two sets of k experts chosen uniformly at random."""
    return sum(
        comb(k, shared)
        * comb(num_experts - k, k - shared)
        / comb(num_experts, k)
        * shared
        / (2 * k - shared)
        for shared in range(k + 1)
    )


def measure(planted: PlantedTasks, trained: Trained) -> dict[str, Any]:
    """The published measures of one model; `None` without such tasks."""
    related, unrelated = jaccard_index(trained.weights[:, -1], planted.groups)
    return {
        "test_mse": round(trained.mse(planted.split("test")), 5),
        "related": round(related, 4),
        "unrelated": None if np.isnan(unrelated) else round(unrelated, 4),
        "experts": round(trained.experts, 2),
    }


def draw_figure(table: pd.DataFrame, path: str) -> None:
    """Draws a panel per measure, a line per gate, over the number of tasks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.6), layout="constrained")
    titles = {
        "test_mse": "Test MSE",
        "related": "Jaccard index, related tasks",
        "unrelated": "Jaccard index, unrelated tasks",
    }
    panels = figure.subplots(1, len(titles))
    counts = table["tasks"].unique()
    for axes, (column, title) in zip(panels, titles.items(), strict=True):
        for gate, rows in table.groupby("gate", sort=False):
            axes.plot(rows["tasks"].map(str), rows[column], "o-", label=gate)
        if column != "test_mse":
            chance = [expected_jaccard(count // 4, K) for count in counts]
            axes.plot(counts.astype(str), chance, "k:", label="k at random")
        axes.set(title=title, xlabel="Tasks")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    panels[1].legend()
    figure.savefig(path, dpi=120)


def draw_curves(trained: dict[str, Trained], path: str) -> None:
    """Draws the weights of each gate's first task of up to four groups."""
    curves = {
        f"{gate}, group {group}": weights
        for gate, one in trained.items()
        for group, weights in enumerate(one.weights[::TASKS_PER_GROUP][:4])
    }
    weight_curves(curves).savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tasks", type=int, nargs="+", default=[16, 32, 64, 128]
    )
    parser.add_argument(
        "--gates", nargs="+", choices=COMPETITORS, default=list(COMPETITORS)
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, default=140_000)
    parser.add_argument("--epochs", type=int, default=50)
    for name, default in (
        ("learning-rate", 0.1),
        ("gamma", 10.0),
        ("entropy-weight", 0.01),
    ):
        parser.add_argument(
            f"--{name}", type=float, nargs="+", default=[default]
        )
    parser.add_argument("--figure", help="file of the measures' figure")
    parser.add_argument("--curves", help="file of the weights' figure")
    options = parser.parse_args()
    grid = {
        name: getattr(options, name)
        for name in ("learning_rate", "gamma", "entropy_weight")
    }
    lines, latest = [], {}
    for num_tasks, seed, gate in itertools.product(
        options.tasks, range(options.seeds), options.gates
    ):
        start = time.perf_counter()
        planted = planted_tasks(num_tasks, options.rows, seed=seed)
        best = tune(planted, COMPETITORS[gate], grid, options.epochs, seed)
        line = {"tasks": num_tasks, "gate": gate} | measure(planted, best)
        report(
            **line,
            seed=seed,
            **best.settings,
            seconds=round(time.perf_counter() - start, 1),
        )
        lines.append(line)
        latest[gate] = best
    table = pd.DataFrame(lines)
    table = table.groupby(["tasks", "gate"], sort=False).mean().reset_index()
    print(results_table(table))
    if options.figure:
        draw_figure(table, options.figure)
    if options.curves:
        draw_curves(latest, options.curves)


if __name__ == "__main__":
    main()
