import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from keras_moe.callbacks import load_heat_map
from recsys.measuring.curves import read_weights
from recsys.plots import in_figure
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained

_COLUMNS = 4
# Of more, those with the largest weight in the last epoch are drawn.
_MOST_EXPERTS = 32


def routing_over_time(run: Trained) -> Section | None:
    """Draws the weight of each expert over the epochs, a panel an expert.

    Args:
        run: The run.
    """
    if not run.run.weights.is_file():
        return None
    table = read_weights(run.run.weights)
    last = table[table["epoch"] == table["epoch"].max()]
    by_task = {
        in_figure(str(task)): rows.sort_values("expert")["weight"].to_numpy()
        for task, rows in last.groupby("task", sort=False)
    }
    experts = _experts(last)
    number = last["expert"].nunique()
    shown = (
        "each expert"
        if len(experts) == number
        else (
            f"the {len(experts)} of {number:,} experts with the largest weight"
        )
    )
    epochs = int(table["epoch"].max())
    return Section(
        "Routing over time",
        "The mean weight that each task gives an expert on a sample of the "
        "validation split. Lines that part are tasks that specialise; a flat "
        "line at 0 is an expert that a task does not use.",
        pictures=[
            Picture(
                "routing_over_time",
                f"Mean weight of {shown} over {epochs} epochs: a panel for "
                "each expert, a line for each task, all on one scale",
                _draw(table, experts),
            ),
            Picture(
                "routing_last",
                "Mean weight of each expert by task after the last epoch, "
                "in percent",
                load_heat_map(
                    by_task,
                    "Mean weight of each expert",
                    label="Mean weight (%,\ngrey: none)",
                ),
            ),
        ],
    )


def _experts(last: pd.DataFrame) -> list[int]:
    largest = last.groupby("expert")["weight"].max()
    kept = largest.nlargest(_MOST_EXPERTS).index
    return sorted(int(expert) for expert in kept)


def _draw(table: pd.DataFrame, experts: list[int]) -> Figure:
    columns = min(_COLUMNS, len(experts))
    rows = -(-len(experts) // columns)
    figure = Figure(
        figsize=(2.2 * columns + 0.6, 1.3 * rows + 0.9), layout="constrained"
    )
    panels = figure.subplots(
        rows, columns, sharex=True, sharey=True, squeeze=False
    ).flat
    tasks = list(dict.fromkeys(table["task"]))
    for axis, expert in zip(panels, experts, strict=False):
        of_expert = table[table["expert"] == expert]
        for number, task in enumerate(tasks):
            of_task = of_expert[of_expert["task"] == task].sort_values("epoch")
            axis.plot(
                of_task["epoch"],
                of_task["weight"],
                color=f"C{number % 10}",
                label=in_figure(task).replace("$", r"\$"),
            )
        axis.set_title(f"expert {expert}", fontsize="small")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=3))
        axis.grid(alpha=0.3)
    for axis in panels[len(experts) :]:
        axis.remove()
    figure.supxlabel("Epoch", fontsize="small")
    figure.supylabel("Mean weight", fontsize="small")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=min(4, len(tasks)),
        frameon=False,
    )
    return figure
