"""Figures in a page, whose ink has the colour of the page's text."""

import io
import re

import matplotlib
from matplotlib.figure import Figure

from recsys.reporting.tooltips import titled

# What Matplotlib writes before and in a file, and names that a page with
# several figures would have twice and nothing refers to.
_PROLOGUE = re.compile(r"\A.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_GROUP = re.compile(r'<g id="[^"]*"')
_BLACK = re.compile(r"(fill|stroke): ?#000000")
_SIZE = re.compile(r'(<svg[^>]*?) width="([\d.]+)pt" height="[\d.]+pt"')


def themed_svg(figure: Figure, name: str) -> str:
    """Returns a figure as SVG for a light and a dark page.

    Its ground is transparent, black becomes the colour of the text around it,
    texts are texts, its width is what the page has room for, and marks with a
    title show it as a tooltip.

    Args:
        figure: The figure.
        name: What makes names in it differ from those of other figures.
    """
    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None}
        )
    text = titled(_METADATA.sub("", _PROLOGUE.sub("", file.getvalue())))
    text = _BLACK.sub(r"\1: currentColor", _GROUP.sub("<g", text))
    return _SIZE.sub(r'\1 style="width: \2pt"', text, count=1)
