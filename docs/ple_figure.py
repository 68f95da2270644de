"""Draws how the levels of a `PLE` are wired: python docs/ple_figure.py."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

COLUMNS = {"task A's": 2.0, "shared": 6.0, "task B's": 10.0}
INPUT, TOWERS = 0.4, 11.1
# The height of each level's experts; its gates stand above them.
LEVELS = {1: 2.3, 2: 7.1}
GATES_ABOVE = 2.1
FILL = {"task A's": "white", "shared": "gainsboro", "task B's": "white"}
# How far beside its column's middle a gate gets what it looks at.
ASIDE = 1.6


def box(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    width: float,
    height: float = 0.8,
    color: str = "white",
) -> None:
    """Draws a box with its middle at `(x, y)`."""
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor=color,
            edgecolor="black",
        )
    )
    axes.text(x, y, text, ha="center", va="center")


def arrow(
    axes: Axes, *points: tuple[float, float], style: str = "solid"
) -> None:
    """Draws a line through points, the last of which has the head."""
    *way, end = points
    axes.plot(*zip(*way, strict=True), color="black", lw=1, ls=style)
    axes.annotate(
        "",
        end,
        way[-1],
        arrowprops={
            "arrowstyle": "-|>",
            "facecolor": "black",
            "linestyle": style,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )


def level(axes: Axes, number: int, readers: dict[str, list[str]]) -> None:
    """Draws a level's experts, and its gates with the experts they weigh."""
    y = LEVELS[number]
    for group, x in COLUMNS.items():
        box(axes, x, y, "", 2.6, 1.3, FILL[group])
        axes.text(x, y + 0.4, f"{group} experts", ha="center", va="center")
        for i in (-1, 1):
            box(axes, x + 0.6 * i, y - 0.2, f"$f_{(i + 3) // 2}$", 0.8, 0.6)
    for output, groups in readers.items():
        x, gate = COLUMNS[output], y + GATES_ABOVE
        box(axes, x, gate, f"{output} gate", 2.6, 0.7, FILL[output])
        for group in groups:
            side = 0.35 * ((COLUMNS[group] > x) - (COLUMNS[group] < x))
            start = (COLUMNS[group] - 2 * side, y + 0.65)
            arrow(axes, start, (x + 2 * side, gate - 0.35))


def streams(axes: Axes, number: int, outputs: list[str], start: float) -> None:
    """Draws what a level's experts compute on, and its gates look at."""
    experts = LEVELS[number]
    for group, x in COLUMNS.items():
        arrow(axes, (x, start), (x, experts - 0.65))
        if group in outputs:
            gate, aside = experts + GATES_ABOVE, x - ASIDE
            fork = start if number == 1 else start + 0.6
            arrow(
                axes,
                (x if number > 1 else aside, fork),
                (aside, fork),
                (aside, gate),
                (x - 1.3, gate),
                style="dashed",
            )


def draw() -> Figure:
    """Draws a PLE of two levels for two tasks."""
    figure = Figure(figsize=(10, 9), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.set(xlim=(-2.4, 12.1), ylim=(-1.1, 11.7), aspect="equal")
    axes.axis("off")
    tasks = ["task A's", "task B's"]
    of_tasks = {task: [task, "shared"] for task in tasks}
    box(axes, 5.8, INPUT, "inputs $x$, one stream for all", 11.4)
    streams(axes, 1, list(COLUMNS), INPUT + 0.4)
    level(axes, 1, {**of_tasks, "shared": list(COLUMNS)})
    gates = LEVELS[1] + GATES_ABOVE + 0.35
    streams(axes, 2, tasks, gates)
    for group, x in COLUMNS.items():
        axes.text(x + 0.15, gates + 0.25, f"{group} stream", va="center")
    level(axes, 2, of_tasks)
    for task in tasks:
        x = COLUMNS[task]
        arrow(axes, (x, LEVELS[2] + GATES_ABOVE + 0.35), (x, TOWERS - 0.4))
        box(axes, x, TOWERS, f"{task} tower", 2.6, color=FILL[task])
    for number, name in (
        (1, "an inner CGC,\nwith a shared gate"),
        (2, "the last CGC"),
    ):
        axes.text(
            -2.3,
            LEVELS[number] + GATES_ABOVE / 2,
            f"level {number}:\n{name}",
            va="center",
        )
    legend(axes)
    return figure


def legend(axes: Axes) -> None:
    """Says what the two kinds of lines mean."""
    y = -0.7
    arrow(axes, (0.4, y), (1.4, y))
    axes.text(1.6, y, "is computed on, or added up with weights", va="center")
    arrow(axes, (8.2, y), (9.2, y), style="dashed")
    axes.text(9.4, y, "decides the weights", va="center")


if __name__ == "__main__":
    # The same picture is the same file.
    mpl.rcParams["svg.hashsalt"] = "ple"
    draw().savefig(Path(__file__).with_name("ple.svg"), metadata={"Date": None})
