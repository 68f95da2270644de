"""Figures of a run; the routing's are drawn by `keras_moe.callbacks`."""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from recsys.atomic import replacing
from recsys.metrics import ScoredRows
from recsys.metrics import calibration_bins
from recsys.metrics import ece
from recsys.metrics.calibration import DEFAULT_BINS


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG."""
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150)


def importance(measured: Mapping[str, Any]) -> Figure:
    """Draws how much the loss grows without each feature.

    Args:
        measured: What `recsys.explain` returns.
    """
    panels = {"Weighted total": measured["total"]}
    if len(measured["tasks"]) > 1:
        panels |= measured["tasks"]
    names = list(measured["total"])[::-1]
    figure = Figure(
        figsize=(4 * len(panels) + 1, 1.5 + 0.3 * len(names)),
        layout="constrained",
    )
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, growths) in zip(axes, panels.items(), strict=True):
        axis.barh(
            names,
            [growths[name]["mean"] for name in names],
            xerr=[growths[name]["deviation"] for name in names],
            ecolor="0.4",
        )
        axis.axvline(0, color="0.6", lw=1)
        axis.set(title=title, xlabel="Growth of the loss")
        axis.grid(axis="x", alpha=0.3)
    return figure


def loss_curves(history: pd.DataFrame, tasks: Sequence[str]) -> Figure:
    """Draws the losses over the epochs, in all and of each task.

    Args:
        history: A row per epoch: "epoch", "loss" and "val_loss", and
            "<task>_loss" and "val_<task>_loss" where there are several tasks.
        tasks: Names of the tasks.
    """
    panels = {"Weighted total": "loss"}
    if len(tasks) > 1:
        panels |= {task: f"{task}_loss" for task in tasks}
    figure = Figure(
        figsize=(max(6, 4 * len(panels)), 3.5), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    best = history["epoch"].iloc[history["val_loss"].argmin()]
    for axis, (title, column) in zip(axes, panels.items(), strict=True):
        for name, label in (
            (column, "training, total with regularizers"),
            (f"val_{column}", "validation"),
        ):
            if name in history:
                axis.plot(
                    history["epoch"], history[name], "o-", ms=4, label=label
                )
        axis.set_ylim(top=_highest(history, column))
        axis.axvline(best, color="0.6", lw=1, ls="--", label="best epoch")
        axis.set(title=title, xlabel="Epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("Loss")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    return figure


def _highest(history: pd.DataFrame, column: str) -> float | None:
    """The upper end of a loss axis; `None` where nothing needs to be cut off.

    The training loss of the first epoch, a mean that begins with an untrained
    model, would flatten all the others.
    """
    names = [name for name in (column, f"val_{column}") if name in history]
    if len(history) < 3 or not names:
        return None
    losses = history[names].to_numpy()
    later = losses[1:].max()
    later = max(later, losses[0, -1])
    return float(later + 0.1 * (later - losses.min()))


def calibration(
    task: str,
    labels: Any,
    probabilities: Any,
    num_bins: int = DEFAULT_BINS,
    weights: Any = None,
) -> Figure:
    """Draws how often a binary label is 1 against how often it is said to be.

    Below, how many rows were given each probability. The legend has the
    expected calibration error over the same bins.

    Args:
        task: Name of the task.
        labels: Array `(rows,)` of 0, 1, or NaN where missing.
        probabilities: Array `(rows,)`.
        num_bins: Number of bins of equal width.
        weights: Array `(rows,)` of how much each counts; each once unless
            given.
    """
    labelled = ~np.isnan(labels)
    rows = ScoredRows.of(
        labels[labelled],
        probabilities[labelled],
        weights=None if weights is None else weights[labelled],
    )
    bins = calibration_bins(rows, num_bins)
    filled = bins.weights > 0
    error = ece(rows, num_bins)
    model = "model" if error is None else f"model, ECE {error:.4f}"
    figure = Figure(figsize=(4.5, 5.2), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    top.plot((0, 1), (0, 1), color="0.6", ls="--", lw=1, label="perfect")
    top.plot(
        bins.predicted[filled], bins.observed[filled], "o-", ms=4, label=model
    )
    top.set(
        title=f"Calibration of {task}",
        ylabel="Share of rows with label 1",
        xlim=(0, 1),
        ylim=(0, 1),
    )
    top.legend(frameon=False)
    lower = np.arange(num_bins) / num_bins
    bottom.bar(lower, bins.weights, width=1 / num_bins, align="edge")
    counted = "Rows" if weights is None else "Weight of rows"
    bottom.set(xlabel="Predicted probability", ylabel=counted)
    for axis in (top, bottom):
        axis.grid(alpha=0.3)
    return figure
