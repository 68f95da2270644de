from collections.abc import Mapping
from collections.abc import Sequence
from itertools import cycle
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from keras_moe.callbacks.routing_plots import LINE_STYLES
from keras_moe.callbacks.routing_plots import MOST_NUMBERED_EXPERTS
from keras_moe.callbacks.routing_plots import check_not_empty
from keras_moe.callbacks.routing_plots import new_figure
from keras_moe.types import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS_A_ROW = 4
COLORS = tuple(f"C{number}" for number in range(10))


def weight_curves(
    weights: Mapping[str, Numbers],
    epochs: Sequence[float] | None = None,
    title: str = "Weight of each expert",
) -> "Figure":
    """Draws the weight of every expert as training goes on.

    Args:
        weights: Per task, the mean weights of its experts, an array
            `(measurements, n)`, such as `RoutingMonitor.weights`.
        epochs: Number of training epochs before each measurement.
            Defaults to 0, 1, 2, ...: the first one is from before training.
        title: String above the figure.

    Returns:
        A figure with a panel per task, in rows of four, and a line per expert:
        the same colour and style for one expert in every panel. Up to 16
        experts are listed in a legend.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If `weights` is empty.

    Example:
        >>> figure = weight_curves({"watch": [[0.5, 0.5], [0.1, 0.9]]})
        >>> [line.get_ydata().tolist() for line in figure.axes[0].lines]
        [[0.5, 0.1], [0.5, 0.9]]

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        figures 2 and C.6 to C.8.
    """
    check_not_empty("weights", weights)
    columns = min(PANELS_A_ROW, len(weights))
    rows = -(-len(weights) // columns)
    figure = new_figure(3.2 * columns + 1.2, 2.6 * rows + 0.4)
    from matplotlib.ticker import MaxNLocator

    panels = figure.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False
    ).flat
    for axes in panels[len(weights) :]:
        axes.remove()
    for axes, (task, values) in zip(panels, weights.items(), strict=False):
        x = range(len(values)) if epochs is None else epochs
        _draw_experts(axes, x, np.transpose(values))
        axes.set_title(task)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.suptitle(title)
    figure.supxlabel("Epochs of training")
    figure.supylabel("Weight (mean)")
    lines = max((axes.lines for axes in figure.axes), key=len)
    if len(lines) <= MOST_NUMBERED_EXPERTS:
        figure.legend(
            handles=list(lines),
            title="Expert",
            loc="outside right upper",
            ncols=1 + (len(lines) > MOST_NUMBERED_EXPERTS // 2),
            fontsize="small",
            frameon=False,
        )
    return figure


def _draw_experts(
    axes: "Axes", x: Sequence[float], weights: np.ndarray
) -> None:
    """Draws weights `(n, measurements)`, a line per expert."""
    looks = cycle(product(LINE_STYLES, COLORS))
    for expert, (values, (style, color)) in enumerate(
        zip(weights, looks, strict=False)
    ):
        axes.plot(x, values, style, color=color, label=str(expert))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
