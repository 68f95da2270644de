from collections.abc import Iterable
from typing import TYPE_CHECKING

from recsys.data.streaming.split_stream import SplitStream

if TYPE_CHECKING:
    import pandas as pd


def column_parts(
    split: "SplitStream | pd.DataFrame", name: str
) -> Iterable["pd.Series"]:
    """Returns a column part by part; that of a table is one part.

    Args:
        split: The split.
        name: Name of the column.
    """
    if isinstance(split, SplitStream):
        return split.column(name)
    return [split[name]]
