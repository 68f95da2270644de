r"""Compares static gates on tasks that are known mixtures of known experts.

    KERAS_BACKEND=jax python benchmarks/planted_tasks.py --tasks 16 32 64 128 \
        --search 20 --repetitions 5 --figure planted_tasks.png

The synthetic study of DSelect-k (appendices C.1 and D.4, figure C.5): T
regression tasks in groups of 16, a multi-gate mixture with T / 4 experts, each
the sum of 4 ReLU units, and a static gate per task with k = 4. A gate has found
the structure when the tasks of a group share their experts and tasks of
different groups do not. 100,000 rows for training and 20,000 for each of
validation and test, Adam, batches of 256, squared error, as published. Gates:

    dselect-k            static DSelect-k,
    top-k                static Top-k without noise,
    softmax-annealing    the paper's "Ablation (Annealing)",
    softmax-entropy      its "Ablation (Entropy)",
    softmax              all experts, which is not in the paper.

Where several values are given for a hyperparameter, all combinations are
trained, with `--search N` N random ones, also of the published values of those
that are not given. The one with the lowest validation MSE counts, among those
that select k experts per task or fewer on average, if there is any: section
3.1.3 disregards gates whose selectors are not binary. `--repetitions R` trains
it R times, each from another random start.

What the paper leaves open:

* The loss is the sum over the tasks of their squared errors, each a mean over
  the batch, beside which each gate's entropy is added. A static gate has one
  entropy, not one per example: nothing depends on the batch size.
* Experts begin as Keras's dense layers do (Glorot), the gates' weights in
  U(-0.05, 0.05), DSelect-k's selectors in U(-γ/100, γ/100), and no unit has a
  bias, as none has in the data.
* The temperature falls at every step, and is the last one in the last step.
* The tasks' weights of one expert are correlated, those of two experts not.
  128 tasks are eight groups (`recsys.data.datasets.planted_tasks` says why).
* An expert is selected where its weight is at least 1e-5.

Every gate layer serves all tasks at once: its inputs are the tasks' one-hot
numbers, so row t of its kernels are the parameters of task t's static gate.

Prints one JSON line per training, `repetition` -1 in the search, and a Markdown
table of the repetitions' means:

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
from math import ceil
from math import comb
from typing import Any

import keras
import numpy as np
import pandas as pd
from keras import ops
from keras.config import backend
from report import report
from results_table import results_table
from softmax_selector_gate import AnnealedSoftmaxSelectorGate
from softmax_selector_gate import SoftmaxSelectorGate

from keras_moe.callbacks import weight_curves
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.metrics import jaccard_index
from recsys.data.datasets.planted_tasks import EXPERTS_PER_GROUP
from recsys.data.datasets.planted_tasks import TASKS_PER_GROUP
from recsys.data.datasets.planted_tasks import UNITS
from recsys.data.datasets.planted_tasks import PlantedTasks
from recsys.data.datasets.planted_tasks import planted_tasks

K = EXPERTS_PER_GROUP
BATCH_SIZE = 256

Settings = dict[str, float]

Grid = dict[str, list[float]]

# Appendix D.4.
PUBLISHED_GRID: Grid = {
    "learning_rate": [0.001, 0.01, 0.1],
    "epochs": [25, 50, 75, 100],
    "gamma": [5, 10, 15],
    "entropy_weight": [0.001, 0.005, 0.01, 0.1],
    "softmax_entropy_weight": [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 100],
    "first_temperature": [
        *(1e-6, 1e-5, 5e-5, 1e-4, 2.5e-4),
        *(5e-4, 7.5e-4, 1e-3, 5e-3, 1e-2),
    ],
}
# What is trained where nothing is said: one point of it.
DEFAULTS: Settings = {
    "learning_rate": 0.1,
    "epochs": 50,
    "gamma": 10,
    "entropy_weight": 0.01,
    "softmax_entropy_weight": 0.01,
    "first_temperature": 1e-3,
}


@dataclass(frozen=True)
class Sizes:
    """What a gate has to know of the problem and the training."""

    num_tasks: int
    num_steps: int

    @property
    def num_experts(self) -> int:
        return self.num_tasks // TASKS_PER_GROUP * EXPERTS_PER_GROUP


def _dselect_k(sizes: Sizes, settings: Settings) -> Gate:
    return DSelectKGate(
        sizes.num_experts,
        K,
        gamma=settings["gamma"],
        # The layer takes the mean over its rows, the tasks.
        entropy_weight=sizes.num_tasks * settings["entropy_weight"],
        use_bias=False,
    )


def _top_k(sizes: Sizes, settings: Settings) -> Gate:
    # Drawn as DSelect-k's softmax: from zeros, all tasks would begin with the
    # same experts, those of the lowest numbers.
    return TopKGate(
        sizes.num_experts,
        K,
        use_bias=False,
        kernel_initializer="random_uniform",
    )


def _softmax_annealing(sizes: Sizes, settings: Settings) -> Gate:
    return AnnealedSoftmaxSelectorGate(
        sizes.num_experts, K, settings["first_temperature"], sizes.num_steps
    )


def _softmax_entropy(sizes: Sizes, settings: Settings) -> Gate:
    weight = sizes.num_tasks * settings["softmax_entropy_weight"]
    return SoftmaxSelectorGate(sizes.num_experts, K, entropy_weight=weight)


def _softmax(sizes: Sizes, settings: Settings) -> Gate:
    return SoftmaxGate(sizes.num_experts, use_bias=False)


@dataclass(frozen=True)
class Competitor:
    """A kind of gate, and the hyperparameters of its own that are tuned."""

    create: Callable[[Sizes, Settings], Gate]
    tuned: tuple[str, ...] = ()

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        return ("learning_rate", "epochs", *self.tuned)


COMPETITORS = {
    "dselect-k": Competitor(_dselect_k, ("gamma", "entropy_weight")),
    "top-k": Competitor(_top_k),
    "softmax-annealing": Competitor(_softmax_annealing, ("first_temperature",)),
    "softmax-entropy": Competitor(
        _softmax_entropy, ("softmax_entropy_weight",)
    ),
    "softmax": Competitor(_softmax),
}
PUBLISHED = [name for name in COMPETITORS if name != "softmax"]


@keras.saving.register_keras_serializable(package="benchmarks")
class TaskMixture(keras.Model):
    """Static gates over shared experts: `(B, D)` to `(B, T)`.

    Task t is `Σ_e g_te Σ_u relu(x w_eu)` with 4 units u.

    Args:
        num_tasks: `T`.
        gate: From the one-hot numbers of the tasks, `(T, T)`, to weights.
    """

    def __init__(self, num_tasks: int, gate: Gate) -> None:
        super().__init__()
        self.gate = gate
        self.experts = MLPExperts(
            gate.num_experts, UNITS, activation="relu", use_bias=False
        )
        self.tasks = np.eye(num_tasks, dtype="float32")

    def build(self, input_shape: Any) -> None:
        self.experts.build(input_shape)
        self.gate.build(self.tasks.shape)
        super().build(input_shape)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        units = self.experts(inputs)  # (B, E, 4)
        weights = self.gate(self.tasks, training=training)  # (T, E)
        # The experts' outputs (B, E) with (E, T).
        return ops.matmul(ops.sum(units, axis=-1), ops.transpose(weights))

    def train_step(self, *args: Any) -> Any:
        """One step; on JAX those of a whole epoch, compiled as one loop."""
        if not scans_epochs():
            return super().train_step(*args)
        state, rows = args
        inputs, labels = keras.utils.unpack_x_y_sample_weight(rows)[:2]
        step = super().train_step
        whole = len(inputs) // BATCH_SIZE
        batches = [
            # (steps, 256, columns)
            array[: whole * BATCH_SIZE].reshape(
                whole, BATCH_SIZE, array.shape[1]
            )
            for array in (inputs, labels)
        ]
        state, _ = ops.scan(
            lambda state, batch: (step(state, tuple(batch))[1], None),
            state,
            batches,
        )
        rest = inputs[whole * BATCH_SIZE :], labels[whole * BATCH_SIZE :]
        return step(state, rest) if len(rest[0]) else ({}, state)

    def weights_by_task(self) -> np.ndarray:
        """The weights of the experts at inference, `(T, E)`."""
        return ops.convert_to_numpy(self.gate(self.tasks))


def scans_epochs() -> bool:
    """Whether a batch of `fit` is an epoch, which JAX takes batch by batch.

    A step takes less time than to start it from Python.
    """
    return backend() == "jax"


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


def squared_error(labels: Any, predictions: Any) -> Any:
    """The sum over the tasks, beside which each gate's entropy is added."""
    return ops.sum(ops.square(labels - predictions), axis=-1)


def train(
    planted: PlantedTasks,
    competitor: Competitor,
    settings: Settings,
    seed: int,
) -> Trained:
    """Trains one model from its own random start."""
    keras.utils.set_random_seed(seed)
    inputs, labels = planted.split("train")
    epochs = int(settings["epochs"])
    steps = ceil(len(inputs) / BATCH_SIZE)
    sizes = Sizes(labels.shape[1], epochs * steps)
    model = TaskMixture(sizes.num_tasks, competitor.create(sizes, settings))
    optimizer = keras.optimizers.Adam(settings["learning_rate"])
    model.compile(optimizer, loss=squared_error)
    model.build(inputs.shape)
    weights = [model.weights_by_task()]
    model.fit(
        inputs,
        labels,
        batch_size=len(inputs) if scans_epochs() else BATCH_SIZE,
        epochs=epochs,
        verbose=0,
        callbacks=[
            keras.callbacks.LambdaCallback(
                on_epoch_end=lambda *_: weights.append(model.weights_by_task())
            )
        ],
    )
    return Trained(settings, model, np.stack(weights, axis=1))


def draw_points(
    competitor: Competitor, grid: Grid, count: int
) -> list[Settings]:
    """Draws different points of a grid; all, in order, for a count of 0."""
    names = competitor.hyperparameters
    points = list(itertools.product(*(grid[name] for name in names)))
    if count:
        order = np.random.default_rng(0).permutation(len(points))[:count]
        points = [points[index] for index in order]
    return [dict(zip(names, point, strict=True)) for point in points]


def rank(trained: Trained, planted: PlantedTasks) -> tuple[bool, float]:
    """What the best of several trainings has least of."""
    validation_mse = trained.mse(planted.split("validation"))
    # NaN would be less than nothing and not more.
    return trained.experts > K, np.nan_to_num(validation_mse, nan=np.inf)


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


class Study:
    """Trains and reports, for one number of tasks.

    Args:
        num_tasks: A multiple of 16.
        rows: Of all splits together.
        data_seed: Of the tasks; one data set serves all trainings.
    """

    def __init__(self, num_tasks: int, rows: int, data_seed: int) -> None:
        self.num_tasks = num_tasks
        self.planted = planted_tasks(num_tasks, rows, seed=data_seed)

    def run(
        self, gate: str, settings: Settings, repetition: int
    ) -> tuple[dict[str, Any], Trained]:
        """Trains once; the seed follows from the number of the repetition."""
        start = time.perf_counter()
        trained = train(
            self.planted, COMPETITORS[gate], settings, seed=repetition + 1
        )
        line = {
            "tasks": self.num_tasks,
            "gate": gate,
            **measure(self.planted, trained),
        }
        not_settled, validation_mse = rank(trained, self.planted)
        report(
            **line,
            repetition=repetition,
            settled=not not_settled,
            validation_mse=round(float(validation_mse), 5),
            **settings,
            seconds=round(time.perf_counter() - start, 1),
        )
        return line, trained

    def choose(self, gate: str, points: list[Settings]) -> Settings:
        """The best of some points, which has to be searched among several."""
        if len(points) == 1:
            return points[0]
        trained = (self.run(gate, point, repetition=-1)[1] for point in points)
        return min(trained, key=lambda one: rank(one, self.planted)).settings


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--tasks", type=int, nargs="+", default=[16, 32, 64, 128]
    )
    parser.add_argument(
        "--gates", nargs="+", choices=COMPETITORS, default=PUBLISHED
    )
    parser.add_argument("--search", type=int, default=0, metavar="POINTS")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--data-seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=140_000)
    for name in DEFAULTS:
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=float, nargs="+")
    parser.add_argument("--figure", help="file of the measures' figure")
    parser.add_argument("--curves", help="file of the weights' figure")
    options = parser.parse_args()
    grid = {
        name: getattr(options, name)
        or (PUBLISHED_GRID[name] if options.search else [DEFAULTS[name]])
        for name in DEFAULTS
    }
    lines, latest = [], {}
    for num_tasks in options.tasks:
        study = Study(num_tasks, options.rows, options.data_seed)
        for gate in options.gates:
            points = draw_points(COMPETITORS[gate], grid, options.search)
            settings = study.choose(gate, points)
            for repetition in range(options.repetitions):
                line, latest[gate] = study.run(gate, settings, repetition)
                lines.append(line)
    table = pd.DataFrame(lines)
    table = table.groupby(["tasks", "gate"], sort=False).mean().reset_index()
    print(results_table(table))
    if options.figure:
        draw_figure(table, options.figure)
    if options.curves:
        draw_curves(latest, options.curves)


if __name__ == "__main__":
    main()
