"""Titles of the marks of a figure, which browsers show as tooltips."""

import math
import re
from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import BarContainer
from matplotlib.container import ErrorbarContainer
from matplotlib.dates import DateLocator
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from recsys.errors.shown import printable

# Of more marks, none gets a title: they lie too close to be pointed at.
MOST_MARKS = 150
_PREFIX = "tooltip:"
_NAMED = re.compile(rf'<g id="{_PREFIX}([^"]*)"([^>]*)>')


def set_tooltip(artist: Artist, text: str) -> None:
    """Gives a mark a title.

    Args:
        artist: What is drawn.
        text: The title, which `titled` writes into the SVG.
    """
    artist.set_gid(_PREFIX + printable(text))


def titled(svg: str) -> str:
    """Returns an SVG with the titles of marks as elements.

    Args:
        svg: What Matplotlib has written.
    """
    return _NAMED.sub(r"<g\2><title>\1</title>", svg)


def add_tooltips(figure: Figure) -> None:
    """Gives the bars of a figure, and the points of its curves, titles.

    Curves count that a legend names. Their points are covered by marks that
    are not seen.

    Args:
        figure: A figure. One of more than `MOST_MARKS` marks stays as it is.
    """
    bars = [bar for axes in figure.axes for bar in _bars(axes)]
    points = [point for axes in figure.axes for point in _points(axes)]
    if len(bars) + len(points) > MOST_MARKS:
        return
    for bar, text in bars:
        set_tooltip(bar, text)
    for axes, x, y, text in points:
        mark = axes.scatter(
            x, y, s=60, color=(0.0, 0.0, 0.0, 0.0), linewidths=0, label="_"
        )
        set_tooltip(mark, text)


def _bars(axes: Axes) -> Iterator[tuple[Artist, str]]:
    for container in axes.containers:
        if not isinstance(container, BarContainer):
            continue
        for bar in container:
            x = bar.get_x() + bar.get_width() / 2
            y = bar.get_y() + bar.get_height() / 2
            if container.orientation == "horizontal":
                place = _shown(axes.yaxis, y)
                length = _shown(axes.xaxis, bar.get_width())
            else:
                place = _shown(axes.xaxis, x)
                length = _shown(axes.yaxis, bar.get_height())
            yield bar, f"{place}: {length}"


def _points(axes: Axes) -> Iterator[tuple[Axes, float, float, str]]:
    for line, label in _curves(axes).items():
        points = np.column_stack(line.get_data(orig=False)).astype("float64")
        for x, y in points.tolist():
            if np.isfinite([x, y]).all():
                place = _shown(axes.xaxis, x), _shown(axes.yaxis, y)
                yield axes, x, y, f"{label}: {', '.join(place)}"


def _curves(axes: Axes) -> dict[Line2D, str]:
    """The lines with a name over both axes, and their names."""
    named = {line: str(line.get_label()) for line in axes.lines}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer):
            named[container[0]] = str(container.get_label())
    return {
        line: name
        for line, name in named.items()
        if not name.startswith("_")
        and line.get_transform() == axes.transData
        and line.get_marker() not in (None, "None", "", " ")
    }


def _shown(axis: Axis, value: float) -> str:
    """A value with the title of its axis; a day, or the text of its tick."""
    text = f"{value:.4g}"
    locator = axis.get_major_locator()
    if isinstance(locator, DateLocator):
        # Matplotlib counts days since 1970.
        text = str(np.datetime64(math.floor(value), "D"))
    elif isinstance(locator, FixedLocator):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        places = axis.get_majorticklocs()
        text = dict(zip(places, labels, strict=False)).get(value) or text
    return f"{axis.get_label_text()} {text}".strip()
