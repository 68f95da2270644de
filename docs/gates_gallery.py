"""Draws what each gate does: python docs/gates_gallery.py [NAME ...].

Writes docs/gates/NAME.svg, for all gates unless some are named, and
docs/gates/problem.svg. Every gate is as `recsys train --gate NAME` makes it,
for 4 experts, and trained on the same planted problem.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import keras
import matplotlib as mpl
import numpy as np
from keras import ops
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from recsys.config.gate_names import GATES
from recsys.models.gates import create_gate
from recsys.models.gates import default_options

FOLDER = Path(__file__).with_name("gates")
EXPERTS, CELLS, SEED = 4, 8, 0
ROWS, BATCH, EPOCHS = 2048, 128, 60
# Pixels along a side of the plane, which is [-1, 1] in both directions.
SIDE = 96
# Of Okabe and Ito: told apart with any kind of colour vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
STYLES = ("-", "--", "-.", ":")
NO_WEIGHT = "gainsboro"
# Weights of the planes are rounded to steps of this size, for small files.
STEP = 0.05
# What differs from a run's own choice: the published number of experts; a
# temperature that falls within the few steps here, and a price of each expert.
K = {"switch": 1}
OPTIONS = {"gumbel-softmax": {"decay_steps": 10, "sparsity_weight": 0.03}}


class Trained(NamedTuple):
    """A gate after its training.

    Attributes:
        weights: Of each expert over the plane, `(SIDE, SIDE, EXPERTS)`.
        loads: The share of the rows that each expert has, before the training
            and after each epoch, `(EPOCHS + 1, EXPERTS)`.
    """

    weights: np.ndarray
    loads: np.ndarray


def sectors(points: np.ndarray) -> np.ndarray:
    """The part of the plane that points `(rows, 2)` are in, of four."""
    angles = np.arctan2(points[:, 1], points[:, 0]) - np.pi / 8
    return np.floor(angles / (np.pi / 2)).astype(int) % EXPERTS


def targets(points: np.ndarray) -> np.ndarray:
    """A linear function in each part of the plane, `(rows, 1)`."""
    slopes = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    offsets = np.array([2, -2, 1, -1])
    part = sectors(points)
    values = np.sum(slopes[part] * points, axis=1) + offsets[part]
    return values[:, None].astype("float32")


def plane() -> np.ndarray:
    """The middles of the pixels of the plane, `(SIDE ** 2, 2)`."""
    middles = (np.arange(SIDE) + 0.5) / SIDE * 2 - 1
    x, y = np.meshgrid(middles, middles)
    return np.stack([x.ravel(), y.ravel()], axis=1).astype("float32")


def seen(gate: Gate, points: np.ndarray) -> np.ndarray:
    """What a gate sees of points: for ids, the cells of a chess board."""
    if gate.feature_rank:
        return points
    column, row = ((points + 1) / 2 * CELLS).astype("int32").T
    return (CELLS * row + column).astype("int32")


def train(name: str, epochs: int = EPOCHS) -> Trained:
    """Trains a mixture of linear experts with the gate of that name."""
    keras.utils.set_random_seed(SEED)
    rng = np.random.default_rng(SEED)
    points = rng.uniform(-1, 1, (ROWS, 2)).astype("float32")
    k = K.get(name, 2)
    options = {**default_options(name, k), **OPTIONS.get(name, {})}
    gate = create_gate(name, EXPERTS, k, CELLS**2, SEED, options)
    features = keras.Input((2,))
    ids = features if gate.feature_rank else keras.Input((), dtype="int32")
    experts = MLPExperts(EXPERTS, 1, activation=None, seed=SEED)
    outputs = MoE(gate, experts)(features, ids)
    model = keras.Model([features, ids], outputs)
    model.compile(keras.optimizers.Adam(0.03), "mse")
    loads = []

    def note_load(*_: object) -> None:
        loads.append((weights_of(gate, points) != 0).mean(axis=0))

    note_load()
    model.fit(
        [points, seen(gate, points)],
        targets(points),
        BATCH,
        epochs,
        verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=note_load)],
    )
    weights = weights_of(gate, plane()).reshape(SIDE, SIDE, EXPERTS)
    return Trained(weights, np.stack(loads))


def weights_of(gate: Gate, points: np.ndarray) -> np.ndarray:
    """The weights of all experts for points, `(rows, EXPERTS)`."""
    weights = ops.convert_to_numpy(gate(seen(gate, points), training=False))
    return np.broadcast_to(weights, (len(points), EXPERTS))


def draw(name: str, trained: Trained) -> Figure:
    """Draws the plane of each expert, and the loads over the training."""
    figure = Figure(figsize=(9, 2.3), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(1, EXPERTS + 1, width_ratios=[1] * 4 + [1.5])
    for expert, color in enumerate(COLORS):
        axes = figure.add_subplot(grid[expert])
        shades = LinearSegmentedColormap.from_list("", ["white", color])
        shades = shades.with_extremes(bad=NO_WEIGHT)
        weights = trained.weights[..., expert]
        rounded = np.ceil(weights / STEP) * STEP
        axes.imshow(
            np.ma.masked_equal(rounded, 0),
            cmap=shades,
            vmin=0,
            vmax=1,
            origin="lower",
            extent=(-1, 1, -1, 1),
            interpolation="none",
        )
        largest = f"up to {weights.max():.2g}" if weights.any() else "none"
        axes.set_title(f"expert {expert}", color=color, fontweight="bold")
        axes.set_xlabel(largest)
        axes.set(xticks=[], yticks=[])
    axes = figure.add_subplot(grid[EXPERTS])
    steps = np.arange(len(trained.loads)) * (ROWS // BATCH)
    for expert, color in enumerate(COLORS):
        load = 100 * trained.loads[:, expert]
        style = STYLES[expert]
        axes.plot(steps, load, style, color=color, label=str(expert))
    axes.set(ylim=(-4, 104), xlabel="step", title=f"{name}: load (%)")
    axes.grid(color="gainsboro")
    figure.legend(
        loc="outside right center",
        title="expert",
        frameon=False,
        handlelength=3,
    )
    return figure


def draw_problem() -> Figure:
    """Draws the planted problem: the parts of the plane, and the targets."""
    figure = Figure(figsize=(5, 2.3), layout="constrained", facecolor="white")
    parts, values = figure.subplots(1, 2)
    points = plane()
    place = {"origin": "lower", "extent": (-1, 1, -1, 1)}
    parts.imshow(
        sectors(points).reshape(SIDE, SIDE),
        cmap=LinearSegmentedColormap.from_list("", ["white", "dimgray"]),
        vmin=-1,
        interpolation="none",
        **place,
    )
    parts.set(title="four parts", xticks=[], yticks=[])
    image = values.imshow(
        np.round(targets(points).reshape(SIDE, SIDE) / 0.25) * 0.25,
        cmap="cividis",
        interpolation="none",
        **place,
    )
    values.set(title="target", xticks=[], yticks=[])
    figure.colorbar(image, ax=values)
    return figure


def save(figure: Figure, name: str) -> None:
    """Writes a figure; the same picture is the same file."""
    mpl.rcParams["svg.hashsalt"] = "gates"
    # As text, not as outlines, which take several times the bytes.
    mpl.rcParams["svg.fonttype"] = "none"
    FOLDER.mkdir(exist_ok=True)
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    for gate_name in sys.argv[1:] or GATES:
        save(draw(gate_name, train(gate_name)), gate_name)
        print(gate_name)
    save(draw_problem(), "problem")
