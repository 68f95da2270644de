"""Figures that are saved blank: drawing them is a third of many a training."""

from typing import Any

from matplotlib.figure import Figure
from PIL import Image


def save_blank(
    figure: Figure,
    file: Any,
    dpi: float | None = None,
    format: str = "png",
    **_: Any,
) -> None:
    """Takes the place of `Figure.savefig`."""
    if format == "svg":
        file.write('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
        return
    width, height = figure.get_size_inches() * (dpi or figure.dpi)
    blank = Image.new("1", (int(width), int(height)))
    blank.save(file, "png", compress_level=0)
