from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recsys.files.json_files import JsonMapping
from recsys.plots import in_figure

_MOST_ROWS = 40  # More could not be read.
_PASSED, _REFUSED = "#1b7f5c", "#c4441c"
_LONGEST = 60  # Letters of a name.
# Sections whose limit holds on either side, or below zero.
_BELOW = ("value", "retrieval", "calibration")
_ABOVE = ("tasks", "slices", "drift", "cost", "calibration")


def draw_checks(section: str, checks: Sequence[JsonMapping]) -> Figure | None:
    """Draws the values of checks with their intervals and the limit.

    A check that passes is a green circle, one that does not a red cross.

    Args:
        section: Their section.
        checks: Checks as in `promotion.json`. Those that are counts, whose
            scale is another one, are left out; of more than 40, the first.

    Returns:
        `None` without one that can be drawn.
    """
    drawn = [
        check
        for check in checks
        if check["value"] is not None
        and not (section in ("tasks", "value") and check["interval"] is None)
    ][:_MOST_ROWS]
    if not drawn:
        return None
    figure = Figure(figsize=(8, 1.0 + 0.32 * len(drawn)), layout="constrained")
    axes = figure.add_subplot()
    for place, check in enumerate(drawn):
        _draw(axes, place, check)
    limits = {check["limit"] for check in drawn}
    for limit in limits:
        if section in _ABOVE:
            axes.axvline(limit, color="gray", linestyle="--", linewidth=1)
        if section in _BELOW:
            axes.axvline(-limit, color="gray", linestyle="--", linewidth=1)
    if section != "cost":
        axes.axvline(0, color="gray", linewidth=0.5)
    axes.set_yticks(
        range(len(drawn)), [_short(check["name"]) for check in drawn]
    )
    axes.invert_yaxis()
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    return figure


def _draw(axes: Axes, place: int, check: JsonMapping) -> None:
    passed, value = check["passed"], check["value"]
    color = _PASSED if passed else _REFUSED
    ends = check["interval"]
    if ends is not None and None not in ends:
        axes.hlines(place, *ends, color=color, linewidth=1.5)
    marker = "o" if passed else "X"
    axes.plot([value], [place], marker, color=color, label="_")


def _short(name: str) -> str:
    text = in_figure(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
