import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recsys.measuring.calibration_bands import KINDS
from recsys.measuring.calibration_bands import Bin
from recsys.measuring.calibration_bands import binned
from recsys.plots import in_figure
from recsys.reporting.run.predictions import predict
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained

_COLUMNS = 3


def calibration(run: Trained) -> Section | None:
    """Draws predictions against labels, with 95 % intervals.

    Args:
        run: The run.
    """
    if not run.has_predictions:
        return None
    bins = {}
    for task, predicted in predict(run.loaded, run.sample.inputs).items():
        labels = run.sample.labels[task]
        kind = run.loaded.tasks[task].type
        known = ~np.isnan(labels)
        if kind in KINDS and known.any() and predicted.ndim == 1:
            binary = kind == "binary"
            bins[task] = binned(labels[known], predicted[known], binary)
    if not bins:
        return None
    rows = [
        [
            task,
            f"{b.rows:,}",
            f"{b.predicted:.4g}",
            f"{b.observed:.4g}",
            f"{b.low:.4g} to {b.high:.4g}",
        ]
        for task, of_task in bins.items()
        for b in of_task
    ]
    header = ["task", "rows", "predicted", "observed", "95 % interval"]
    return Section(
        "Calibration",
        "Rows of a sample of the validation split in ten groups of about "
        "equal size by their prediction: the mean prediction against the mean "
        "label, of a binary task the rate of ones. Bars are 95 % intervals, "
        "of rates by Clopper and Pearson, of means by 1.96 standard errors. "
        "On the diagonal, predictions are right on average.",
        [Table("Calibration by task", header, rows)],
        [
            Picture(
                "calibration",
                "Mean prediction and mean label of ten groups of rows, for "
                "each task",
                _draw(bins),
            )
        ],
        findings=[*map(_finding, bins, bins.values())],
    )


def _finding(task: str, bins: list[Bin]) -> str:
    off = sum(not b.low <= b.predicted <= b.high for b in bins)
    # Of ten intervals of 95 %, one is often missed by chance.
    verdict = "calibrated" if off <= 1 else "not calibrated"
    return (
        f"{task}: {verdict}, {off} of {len(bins)} groups have a mean "
        "prediction outside of their interval."
    )


def _draw(bins: dict[str, list[Bin]]) -> Figure:
    columns = min(_COLUMNS, len(bins))
    rows = -(-len(bins) // columns)
    figure = Figure(figsize=(3.6 * columns, 3.4 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axis, (task, of_task) in zip(panels, bins.items(), strict=False):
        _draw_task(axis, of_task)
        axis.set_title(in_figure(task), parse_math=False)
    for axis in panels[len(bins) :]:
        axis.remove()
    return figure


def _draw_task(axis: Axes, bins: list[Bin]) -> None:
    predicted = np.array([b.predicted for b in bins])
    observed = np.array([b.observed for b in bins])
    errors = [
        observed - [b.low for b in bins],
        [b.high for b in bins] - observed,
    ]
    both = np.concatenate([predicted, observed])
    ends = [both.min(), both.max()]
    axis.plot(ends, ends, color="0.6", ls="--", lw=1)
    axis.errorbar(predicted, observed, yerr=errors, fmt="o-", ms=4, capsize=2)
    axis.set(xlabel="Mean prediction", ylabel="Mean label")
    axis.grid(alpha=0.3)
