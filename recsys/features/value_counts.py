from collections.abc import Iterator
from typing import Self

import pandas as pd

from recsys.features.held_counts import HeldCounts
from recsys.features.id_values import as_ids
from recsys.features.spilled_counts import SpilledCounts

# Beyond so many strings the engine is the faster one too. It takes
# 30 ms to start, as long as a million rows of few values take without it.
MOST_HELD = 1 << 18


class ValueCounts:
    """Counts of each value of a column that comes in parts.

    Counts are exact. The values are held in memory as long as they are few,
    and go to temporary files beyond that, which the end of the context
    removes. Integers become strings as soon as a part has strings. Missing
    values do not count.

    Attributes:
        num_rows: How many values have been counted.

    Args:
        most_held: How many different values may be held. Twice as many, and
            those of one part, are for a while.

    Example:
    >>> with ValueCounts() as counts:
    ...     counts.add(pd.Series([8, 7, 8]))
    ...     counts.add(pd.Series([7, 9, None], dtype="Int64"))
    ...     [part.to_dict() for part in counts.sorted()]
    [{7: 2, 8: 2, 9: 1}]
    """

    def __init__(self, most_held: int = MOST_HELD) -> None:
        self.num_rows = 0
        self._most_held = most_held
        self._held = HeldCounts()
        self._spilled: SpilledCounts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._spilled is not None:
            self._spilled.close()

    def add(self, part: pd.Series) -> None:
        """Counts further values.

        Raises:
            RunError: There is no room for the temporary files.
        """
        if pd.api.types.is_integer_dtype(part):
            part = as_ids(part.dropna(), "ids")
        counts = part.value_counts(sort=False)
        self.num_rows += int(counts.sum())
        if self._spilled is not None:
            self._spilled.add(counts)
            return
        self._held.add(counts)
        if self._held.num_values > self._most_held:
            self._spill()

    def sorted(self) -> Iterator[pd.Series]:
        """Yields the counts part by part, indexed by the values, ascending.

        Strings come in the order of their code points, as Python has it.

        Raises:
            RunError: There is no room for the temporary files.
        """
        if self._spilled is not None:
            yield from self._spilled.sorted()
        elif len(total := self._held.total):
            yield total.sort_index()

    def _spill(self) -> None:
        self._spilled = SpilledCounts()
        self._spilled.add(self._held.total)
        self._held = HeldCounts()
