from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from recsys.errors.shown import printable

_EXPERTS = "_experts"


def print_recommendations(recommendations: Any) -> None:
    """Prints what `recsys.recommend` returns, as wide as it needs.

    Args:
        recommendations: The `pandas.DataFrame`.
    """
    table = Table("", box=SIMPLE_HEAD, collapse_padding=True)
    for name in recommendations:
        is_number = recommendations[name].dtype.kind == "f"
        title = name.replace(_EXPERTS, ": experts")
        table.add_column(
            Text(printable(title)), justify="right" if is_number else "left"
        )
    for place, values in enumerate(
        recommendations.itertuples(index=False), start=1
    ):
        cells = [Text(_cell(value)) for value in values]
        table.add_row(Text(str(place)), *cells)
    needed = Console(width=1000).measure(table).maximum
    Console(width=max(Console().width, needed)).print(table)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(f"{expert} ({weight:.2f})" for expert, weight in value)
    return printable(str(value))
