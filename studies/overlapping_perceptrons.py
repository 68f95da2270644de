"""Trainings of overlapping perceptrons and what they are compared with."""

import itertools
import time
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_moe.layers import ConditionallyOverlappingMLP
from studies.image_data import read_images
from studies.overlapping_study import Options
from studies.overlapping_study import Study
from studies.perceptrons import PERCEPTRONS
from studies.perceptrons import Shape
from studies.perceptrons import choices
from studies.perceptrons import exists
from studies.perceptrons import perceptron
from studies.runs import Measures
from studies.runs import Settings
from studies.sarcos import Sarcos
from studies.sarcos import planted_sarcos
from studies.sarcos import read_sarcos

# The paper names no size of its batches.
BATCH_SIZE = 128
KEEP_RATES = (0.9, 0.5, 0.1)  # Sparsity 0.1, 0.5 and 0.9.
# They have no share of active units.
DENSE = ("standard", "l1")
NUM_HIDDEN = 3
# The activations of figure 34 that Keras has; the paper's list is a drawing.
ACTIVATIONS = ("relu", "leaky_relu", "elu", "selu", "sigmoid", "tanh",
               "softplus", "softsign", "gelu", "silu", "mish")  # fmt: skip
# Which of the hidden layers are masked, counted from 1.
MASKED_LAYERS = ((), (1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3))


@dataclass(frozen=True)
class Rows:
    """What a perceptron learns, and what it is tested on.

    Attributes:
        train: Float32 inputs `(rows, ...)`.
        train_labels: Classes `(rows,)`, or numbers `(rows, 1)`.
        test: As `train`.
        test_labels: As `train_labels`.
        num_classes: `None` for a regression.
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    num_classes: int | None


@dataclass(frozen=True)
class Protocol:
    """How the perceptrons of a figure are trained, as published.

    Attributes:
        widths: Units of each hidden layer.
        learning_rate: Of SGD.
        epochs: Passes over the training rows.
        momentum: Of SGD, 0 for none.
        keep_rates: Shares of the units that are active.
        is_published: Whether it is a figure of the paper.
        names_epochs: Whether the paper says how many epochs it has.
    """

    widths: Sequence[int]
    learning_rate: float
    epochs: int
    momentum: float = 0.0
    keep_rates: Sequence[float] = KEEP_RATES
    is_published: bool = True
    names_epochs: bool = True

    def notes(self, options: Options) -> list[str]:
        """Says what is not as published, or not published."""
        batch_size = options.batch_size or BATCH_SIZE
        if not self.is_published:
            return ["not an experiment of the paper"]
        published = {
            "widths": self.widths,
            "learning_rate": self.learning_rate,
            "keep_rates": self.keep_rates,
        }
        notes = [f"batches of {batch_size} rows (not published)"]
        if self.names_epochs:
            published["epochs"] = self.epochs
        else:
            notes.append(
                f"{options.epochs or self.epochs} epochs (not published)"
            )
        return [*options.differing(published), *notes]

    def settings(self, options: Options) -> dict[str, Any]:
        """What all runs of a figure have in common."""
        return {
            "learning rate": options.learning_rate or self.learning_rate,
            "momentum": self.momentum,
            "epochs": options.epochs or self.epochs,
            "batch size": options.batch_size or BATCH_SIZE,
        }


PROTOCOLS = {
    "4": Protocol((100, 500, 1000, 3000), 1e-4, 100),
    "11": Protocol((100, 500, 1000, 3000, 9000), 1e-3, 100, names_epochs=False),
    "33": Protocol((100, 500, 1000), 1e-2, 50),
    "34": Protocol(
        (3000,),
        1e-3,
        100,
        momentum=0.9,
        keep_rates=(0.5,),
        names_epochs=False,
    ),
    "keep-rate": Protocol(
        (1000,),
        1e-3,
        100,
        keep_rates=(0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9),
        is_published=False,
    ),
    "layers": Protocol(
        (1000,), 1e-3, 100, keep_rates=(0.5,), is_published=False
    ),
}


def train_perceptron(
    model: keras.Model, rows: Rows, settings: Mapping[str, Any]
) -> Measures:
    """Trains with SGD and tests after each epoch.

    Args:
        model: From `inputs` and `examples` to logits, or to numbers.
        rows: The data. Examples of the test are numbered behind those of
            training: a mask of their own.
        settings: "learning rate", "momentum", "epochs" and "batch size".

    Returns:
        For classes the highest accuracy in percent, that of the last epoch
        and the mean over all epochs, which tells who learns faster; for a
        regression the lowest, last and mean squared error. And the weights
        that are trained and the seconds.
    """
    is_regression = rows.num_classes is None
    name = "mse" if is_regression else "accuracy"
    model.compile(
        keras.optimizers.SGD(
            settings["learning rate"], momentum=settings["momentum"]
        ),
        "mse"
        if is_regression
        else keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[name],
    )
    start = time.perf_counter()
    history = model.fit(
        _numbered(rows.train, 0),
        rows.train_labels,
        batch_size=settings["batch size"],
        epochs=settings["epochs"],
        validation_data=(
            _numbered(rows.test, len(rows.train)),
            rows.test_labels,
        ),
        verbose=0,
    ).history[f"val_{name}"]
    scale, best = (1, min) if is_regression else (100, max)
    return {
        "best": scale * best(history),
        "last": scale * history[-1],
        "mean": scale * float(np.mean(history)),
        "weights": sum(int(np.prod(w.shape)) for w in model.trainable_weights),
        "seconds": round(time.perf_counter() - start, 1),
    }


def _numbered(inputs: np.ndarray, first: int) -> dict[str, np.ndarray]:
    examples = np.arange(first, first + len(inputs), dtype="int32")
    return {"inputs": inputs, "examples": examples}


def perceptron_study(figure: str, options: Options) -> Study:
    """Figures 4, 11 and 33, and the share of the units that are active.

    Args:
        figure: `"4"`, `"11"`, `"33"` or `"keep-rate"`.
        options: What is made smaller.
    """
    protocol = PROTOCOLS[figure]
    rows, notes = _read(figure, options)
    default = ("overlapping", "standard", "smaller", "dropout")
    everything = tuple(PERCEPTRONS) if figure in ("4", "11") else default
    models = options.models or everything
    plan = [
        {"figure": figure, "model": name, "width": width, "keep rate": rate}
        for width in options.widths or protocol.widths
        for name in models
        for rate in _rates(name, options.keep_rates or protocol.keep_rates)
    ]

    def run(settings: Settings) -> Measures:
        given: Mapping[str, Any] = settings
        keras.utils.set_random_seed(given["seed"])
        shape = Shape(given["width"], rows.num_classes or 1, NUM_HIDDEN)
        rate = given["keep rate"]
        model = perceptron(
            given["model"],
            rows.train.shape[1:],
            shape,
            1.0 if rate is None else rate,
        )
        return train_perceptron(model, rows, given)

    return Study(
        f"Perceptrons of {NUM_HIDDEN} hidden layers, by width and share of "
        "active units",
        _with_seeds(plan, protocol, options, rows),
        run,
        by=["width", "keep rate", "model", "weights"],
        digits=_digits(rows),
        notes=[*protocol.notes(options), *notes, *choices(models)],
    )


def activation_study(options: Options) -> Study:
    """Figure 34: activation functions of the hidden layers."""
    protocol = PROTOCOLS["34"]
    rows, notes = _read("34", options)
    width = (options.widths or protocol.widths)[0]
    rate = (options.keep_rates or protocol.keep_rates)[0]
    plan = [
        {
            "figure": "34",
            "activation": activation,
            "model": name,
            "width": width,
            "keep rate": rate if name == "overlapping" else None,
        }
        for activation in ACTIVATIONS
        for name in ("overlapping", "standard")
    ]

    def run(settings: Settings) -> Measures:
        given: Mapping[str, Any] = settings
        keras.utils.set_random_seed(given["seed"])
        shape = Shape(
            width, rows.num_classes or 1, NUM_HIDDEN, given["activation"]
        )
        model = perceptron(given["model"], rows.train.shape[1:], shape, rate)
        return train_perceptron(model, rows, given)

    return Study(
        "Activation functions of the hidden layers",
        _with_seeds(plan, protocol, options, rows),
        run,
        by=["activation", "model", "weights"],
        digits=_digits(rows),
        notes=[
            *protocol.notes(options),
            *notes,
            "momentum 0.9 (not published)",
        ],
    )


def layer_study(options: Options) -> Study:
    """Which hidden layers are masked: not in the paper."""
    protocol = PROTOCOLS["layers"]
    rows, notes = _read("layers", options)
    width = (options.widths or protocol.widths)[0]
    rate = (options.keep_rates or protocol.keep_rates)[0]
    plan = [
        {
            "figure": "layers",
            "masked layers": ", ".join(map(str, layers)) or "none",
            "width": width,
            "keep rate": rate,
        }
        for layers in MASKED_LAYERS
    ]

    def run(settings: Settings) -> Measures:
        given: Mapping[str, Any] = settings
        keras.utils.set_random_seed(given["seed"])
        masked = given["masked layers"].split(", ")
        rates = [
            rate if str(layer + 1) in masked else 1.0
            for layer in range(NUM_HIDDEN)
        ]
        inputs = keras.Input(rows.train.shape[1:], name="inputs")
        units = [*[width] * NUM_HIDDEN, rows.num_classes or 1]
        mlp = ConditionallyOverlappingMLP(units, rates)
        outputs = mlp(keras.layers.Flatten()(inputs))
        examples = keras.Input((), name="examples", dtype="int32")
        both = {"inputs": inputs, "examples": examples}
        return train_perceptron(keras.Model(both, outputs), rows, given)

    return Study(
        "Which of the hidden layers are masked",
        _with_seeds(plan, protocol, options, rows),
        run,
        by=["masked layers", "weights"],
        digits=_digits(rows),
        notes=[*protocol.notes(options), *notes],
    )


def _rates(name: str, keep_rates: Iterable[float]) -> list[float | None]:
    if name in DENSE:
        return [None]
    return [rate for rate in keep_rates if exists(name, rate)]


def _with_seeds(
    plan: Iterable[Mapping[str, Any]],
    protocol: Protocol,
    options: Options,
    rows: Rows,
) -> list[Settings]:
    """The runs seed by seed, so that the first ones already compare."""
    common = {**protocol.settings(options), "rows": len(rows.train)}
    return [
        {**line, **common, "seed": seed}
        for seed, line in itertools.product(range(options.seeds), plan)
    ]


def _digits(rows: Rows) -> dict[str, int]:
    places = 4 if rows.num_classes is None else 1
    return dict.fromkeys(("best", "last", "mean"), places)


def _read(figure: str, options: Options) -> tuple[Rows, list[str]]:
    """The data of a figure, and where they are not the published ones."""
    if figure == "33":
        return _read_sarcos(options)
    data = read_images("cifar-10", options.folder(), options.most_rows)
    rows = Rows(
        data.train,
        data.train_labels,
        data.test,
        data.test_labels,
        data.num_classes,
    )
    if data.is_published:
        return rows, []
    note = f"{len(rows.train):,} training images (published 50,000)"
    return rows, [f"{note}, {len(rows.test):,} for the test (10,000)"]


def _read_sarcos(options: Options) -> tuple[Rows, list[str]]:
    if options.data is None:
        sarcos = planted_sarcos()
        note = (
            "no folder with sarcos_inv.mat is given: a PLANTED stand-in of "
            "the same shape, whose errors say nothing of SARCOS"
        )
        notes = [note]
    else:
        sarcos, notes = read_sarcos(options.data), []
    notes.append(
        "inputs and torque standardised: a squared error is a share of the "
        "torque's variance (not published)"
    )
    most = options.most_rows
    if most is not None:
        notes.append(f"at most {most:,} rows of each split")
    return _first_torque(sarcos, most), notes


def _first_torque(sarcos: Sarcos, most: int | None) -> Rows:
    """One torque, as published, of the first joint."""
    return Rows(
        sarcos.train_inputs[:most],
        sarcos.train_targets[:most, :1],
        sarcos.test_inputs[:most],
        sarcos.test_targets[:most, :1],
        num_classes=None,
    )
