from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

from recsys.data.streaming.split_stream import SplitStream

if TYPE_CHECKING:
    import pandas as pd


def column_parts(
    split: "SplitStream | pd.DataFrame", name: str
) -> Iterable["pd.Series[Any]"]:
    """Returns a column part by part; that of a table is one part.

    Args:
        split: The split.
        name: Name of the column.
    """
    if isinstance(split, SplitStream):
        return split.column(name)
    return [split[name]]
