"""Rows of a split as tables, in memory or read part by part."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recsys.data.streaming.split_stream import SplitStream

if TYPE_CHECKING:
    import pandas as pd


def frames_of(
    split: "SplitStream | pd.DataFrame", names: Sequence[str] | None = None
) -> Iterable["pd.DataFrame"]:
    """Returns the rows of a split part by part; a table is one part.

    Args:
        split: The split.
        names: Names of the columns that are needed; all unless given.
    """
    return split.frames(names) if isinstance(split, SplitStream) else [split]


def column_parts(
    split: "SplitStream | pd.DataFrame", name: str
) -> Iterable["pd.Series"]:
    """Returns a column part by part; that of a table is one part.

    Args:
        split: The split.
        name: Name of the column.
    """
    return (frame[name] for frame in frames_of(split, [name]))
