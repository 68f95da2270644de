"""Plots of a routing: arrays in, a matplotlib figure out.

matplotlib is no dependency of the layers: it is imported when a figure is
drawn.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from keras_moe.types import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_NUMBERED_EXPERTS = 16
_DARK_FROM = 50  # Percent, where the colours of a heat map become dark.
_INK = "0.1"  # Of numbers on light cells; black would follow a dark page.
LINE_STYLES = ("-", "--", "-.", ":")


def require_matplotlib() -> None:
    """Raises an ImportError that says how to install matplotlib."""
    if find_spec("matplotlib") is None:
        raise ImportError(
            "Plots of the routing need matplotlib. "
            "Install it with: pip install matplotlib"
        )


def load_heat_map(
    loads: Mapping[str, Numbers],
    title: str = "Load of each expert",
    label: str = "Load (% of examples,\ngrey: none)",
) -> "Figure":
    """Draws how many examples of each task every expert gets.

    Args:
        loads: Per task, the loads of its experts, `(n,)`, shares of the
            examples in [0, 1].
        title: String above the figure.
        label: String beside the colours: what the numbers are, in percent.

    Returns:
        A figure with a row per task and a column per expert. Its colours go
        from 0 to 100 %; an expert that gets no example is grey. Up to 16
        experts carry their load as a number.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If `loads` is empty.

    Example:
        >>> figure = load_heat_map({"watch": [1.0, 0.5], "rating": [0.0, 1.0]})
        >>> figure.axes[0].get_xlabel()
        'Expert'
    """
    check_not_empty("loads", loads)
    percent = 100 * _stacked(list(loads.values()))
    num_tasks, num_experts = percent.shape
    width = np.clip(0.5 * num_experts, 6, 14) + 2
    figure = new_figure(width, 0.5 * num_tasks + 2)
    axes = figure.subplots()
    from matplotlib import colormaps

    image = axes.imshow(
        percent,
        cmap=colormaps["YlGnBu"].with_extremes(under="gainsboro"),
        vmin=1e-6,  # Zero is under it.
        vmax=100,  # In all maps, so that one can be compared with another.
        aspect="auto",
    )
    axes.set_xticks(_expert_ticks(num_experts))
    axes.set_yticks(range(num_tasks), list(loads))
    axes.set_xlabel("Expert")
    axes.set_ylabel("Task")
    axes.set_title(title)
    axes.tick_params(length=0)
    _draw_cell_borders(axes, num_tasks, num_experts)
    if num_experts <= MOST_NUMBERED_EXPERTS:
        _write_numbers(axes, percent)
    beyond = "both" if np.nanmax(percent) > 100 else "min"
    figure.colorbar(image, label=label, pad=0.02, extend=beyond)
    return figure


def experts_per_example_curve(
    experts_per_example: Mapping[str, Numbers],
    epochs: Sequence[int] | None = None,
    title: str = "Experts per example",
) -> "Figure":
    """Draws how many experts an example selects as training goes on.

    Args:
        experts_per_example: Per task, the mean number of experts an example
            selects, one value per epoch.
        epochs: How many epochs of training each value comes after. Defaults
            to 0, 1, 2, ...: the first value is from before training.
        title: String above the figure.

    Returns:
        A figure with a line per task.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If `experts_per_example` is empty.

    Example:
        >>> figure = experts_per_example_curve({"watch": [4.0, 2.5, 2.0]})
        >>> figure.axes[0].get_xlabel()
        'Epochs of training'
    """
    check_not_empty("experts_per_example", experts_per_example)
    figure = new_figure(8, 4)
    from matplotlib.ticker import MaxNLocator

    axes = figure.subplots()
    # Where lines coincide, each shows through the gaps of the next.
    styles = zip(experts_per_example.items(), cycle(LINE_STYLES), strict=False)
    for (task, values), style in styles:
        x = range(len(values)) if epochs is None else epochs
        axes.plot(x, values, style, marker="o", markersize=4, label=task)
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("Epochs of training")
    axes.set_ylabel("Experts per example (mean)")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(title="Task", loc="outside right upper", frameon=False)
    return figure


def new_figure(width: float, height: float) -> "Figure":
    """A figure that no window system and no global state knows of."""
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", dpi=120)


def check_not_empty(name: str, values: Mapping[str, object]) -> None:
    """Raises a ValueError where there is no task to draw."""
    if not values:
        raise ValueError(
            f"`{name}` must hold at least one task. Received: {values!r}"
        )


def _stacked(rows: Sequence[Numbers]) -> np.ndarray:
    """Stacks rows of differing length; NaN, left blank, where one ends."""
    stacked = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, values in zip(stacked, rows, strict=True):
        row[: len(values)] = values
    return stacked


def _expert_ticks(num_experts: int) -> Sequence[int]:
    step = 1 if num_experts <= 32 else 4 if num_experts <= 128 else 16
    return range(0, num_experts, step)


def _draw_cell_borders(axes: "Axes", num_tasks: int, num_experts: int) -> None:
    axes.set_xticks(np.arange(num_experts + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(num_tasks + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=0.5)
    axes.tick_params(which="minor", length=0)


def _write_numbers(axes: "Axes", percent: np.ndarray) -> None:
    for (task, expert), value in np.ndenumerate(percent):
        if not np.isnan(value):
            axes.text(
                expert,
                task,
                "<1" if 0 < value < 0.5 else f"{value:.0f}",
                ha="center",
                va="center",
                color="white" if value > _DARK_FROM else _INK,
            )
