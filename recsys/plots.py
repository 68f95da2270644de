"""Figures of a run; the routing's are drawn by `keras_moe.callbacks`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recsys.errors.shown import printable
from recsys.files.atomic import replacing
from recsys.files.file_names import short_name
from recsys.files.json_files import JsonMapping
from recsys.metrics import ScoredRows
from recsys.metrics import calibration_bins
from recsys.metrics import ece
from recsys.metrics.calibration import DEFAULT_BINS

# Columns of a history, and what its lines are called.
_TOTAL, _RETRIEVAL = "total_loss", "retrieval_loss"
_SPLITS = ("training", "validation")

_MOST_FEATURES = 50
_LONGEST_NAME = 30


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as PNG."""
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150)


def in_figure(task: str) -> str:
    """Returns a task's name at a length that leaves room for the figure."""
    return short_name(task, 40)


def importance(measured: JsonMapping) -> Figure:
    """Draws how much the loss grows without each feature.

    Args:
        measured: What `recsys.explain` returns. Of many features, the most
            important ones are drawn.
    """
    panels = {"Weighted total": measured["total"]}
    units = {"Weighted total": "weighted sum"}
    if len(measured["tasks"]) > 1:
        tasks = measured["tasks"].items()
        panels |= {in_figure(task): growths for task, growths in tasks}
        units |= {in_figure(t): unit for t, unit in measured["units"].items()}
    else:
        (units["Weighted total"],) = measured["units"].values()
    names = list(measured["total"])[:_MOST_FEATURES][::-1]
    figure = Figure(
        figsize=(4 * len(panels) + 2, 1.5 + 0.3 * len(names)),
        layout="constrained",
    )
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    for axis, (title, growths) in zip(axes, panels.items(), strict=True):
        axis.barh(
            range(len(names)),
            [growths[name]["mean"] for name in names],
            xerr=[growths[name]["deviation"] for name in names],
            ecolor="0.4",
        )
        axis.axvline(0, color="0.6", lw=1)
        axis.set(title=title, xlabel=f"Growth of the loss ({units[title]})")
        # Labels of five digits stand side by side.
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.ticklabel_format(axis="x", scilimits=(-3, 4), useMathText=True)
        axis.grid(axis="x", alpha=0.3)
    # A name is not mathematics, whatever is between its dollars.
    labels = [_short(printable(name)) for name in names]
    axes[0].set_yticks(range(len(names)), labels, parse_math=False)
    if len(names) < len(measured["total"]):
        shown = f"{len(names)} most important of {len(measured['total']):,}"
        figure.suptitle(f"The {shown} features")
    return figure


def _short(name: str) -> str:
    """A name that leaves room for what is drawn."""
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]}…{name[-half:]}"


def loss_curves(
    history: pd.DataFrame, tasks: Sequence[str], best: int | None = None
) -> Figure:
    """Draws the losses over the epochs, in all and of each task.

    Training and validation are the same quantity: the weighted sum of the
    tasks' losses, or the loss of a task. The training's is a mean over the
    steps of an epoch, with dropout. A triangle stands for a point above the
    upper end, with its value.

    Args:
        history: A row per epoch: "epoch" and "val_loss", and "total_loss",
            "<task>_loss" and "val_<task>_loss" where there are several tasks,
            and "retrieval_loss", which is of the training alone. Older ones
            lack "total_loss"; a "loss" has all that layers add.
        tasks: Names of the tasks.
        best: Position of the epoch that was kept; that of the lowest
            "val_loss" unless given.
    """
    if best is None:
        best = int(history["val_loss"].argmin())
    panels = {"Weighted total": (_TOTAL, "val_loss")}
    if len(tasks) > 1:
        panels |= {
            in_figure(task): (f"{task}_loss", f"val_{task}_loss")
            for task in tasks
        }
    if _RETRIEVAL in history:
        panels["Retrieval, training"] = (_RETRIEVAL, "")
    figure = Figure(
        figsize=(max(6, 4 * len(panels)), 3.5), layout="constrained"
    )
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, columns) in zip(axes, panels.items(), strict=True):
        _draw_losses(axis, history, columns, best)
        axis.set(title=title, xlabel="Epoch")
    axes[0].set_ylabel("Loss")
    shown: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(
            *axis.get_legend_handles_labels(), strict=True
        ):
            shown.setdefault(label, handle)
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )
    return figure


def _draw_losses(
    axis: Axes, history: pd.DataFrame, columns: tuple[str, str], best: int
) -> None:
    """Draws the loss of the training, and that of the validation."""
    epochs, highest = history["epoch"], _highest(history, columns)
    for name, label, colour in zip(columns, _SPLITS, ("C0", "C1"), strict=True):
        if name not in history:
            continue
        losses = history[name]
        axis.plot(epochs, losses, "o-", ms=4, label=label, color=colour)
        beyond = losses > (np.inf if highest is None else highest)
        for epoch, loss in zip(epochs[beyond], losses[beyond], strict=True):
            axis.annotate(
                f"{loss:.4g}",
                (epoch, highest),
                xytext=(6, -9),
                textcoords="offset points",
                color=colour,
            )
        if beyond.any():
            axis.plot(
                epochs[beyond],
                np.full(beyond.sum(), highest),
                "^",
                clip_on=False,
                color=colour,
                label=f"{label}, beyond the axis",
            )
    if highest is not None:
        lowest = min(history[name].min() for name in columns if name in history)
        axis.set_ylim(lowest - 0.05 * (highest - lowest), highest)
    kept = epochs.iloc[best]
    axis.axvline(kept, color="0.6", lw=1, ls="--", label="best epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)


def _highest(history: pd.DataFrame, columns: tuple[str, str]) -> float | None:
    """The upper end of a loss axis; `None` where nothing needs to be cut off.

    The training loss of the first epoch, a mean that begins with an untrained
    model, would flatten all the others.
    """
    names = [name for name in columns if name in history]
    losses = history[names].to_numpy()
    if len(history) < 3 or not np.isfinite(losses).any():
        return None
    later = np.nanmax(losses[1:])
    if columns[1] in history:
        later = max(later, losses[0, -1])
    if not np.nanmax(losses[0]) > later:
        return None
    return float(later + 0.1 * (later - np.nanmin(losses)))


def calibration(
    task: str,
    labels: np.ndarray,
    probabilities: np.ndarray,
    num_bins: int = DEFAULT_BINS,
    weights: np.ndarray | None = None,
) -> Figure:
    """Draws how often a binary label is 1, by its predicted probability.

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
