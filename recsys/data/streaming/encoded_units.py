from typing import TYPE_CHECKING
from typing import Protocol

from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.split_stream import SplitStream

if TYPE_CHECKING:
    import pandas as pd


class Encoder(Protocol):
    """Makes arrays `(rows, ...)` of the rows of a table."""

    def __call__(self, rows: "pd.DataFrame", /) -> Arrays: ...


class EncodedUnits:
    """The units of a split as arrays, each read and encoded when called.

    Args:
        split: The split.
        encoder: Encodes the rows of a unit.

    Call arguments:
        unit: Index of the unit.

    Returns:
        The arrays, as `PoolReader` takes them.
    """

    def __init__(self, split: SplitStream, encoder: Encoder) -> None:
        self.split = split
        self.encoder = encoder

    def __call__(self, unit: int) -> Arrays:
        return self.encoder(self.split.read(self.split.units[unit]))
