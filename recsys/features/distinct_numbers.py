import numpy as np
import pandas as pd

# Beyond so many the column is continuous, and further ones say little more.
MOST = 1 << 18


class DistinctNumbers:
    """The different numbers of a column that comes in parts.

    They are float32, as models compare them, and all that the column has up
    to 262,144; from then on, further parts are left out.

    Example:
    >>> distinct = DistinctNumbers()
    >>> distinct.add(pd.Series([0.0, 0.0, 5.0, 0.0]))
    >>> distinct.add(pd.Series([7.0, float("nan"), 9.0]))
    >>> distinct.borders(10), distinct.borders(2)
    ([5.0, 7.0, 9.0], [7.0])
    """

    def __init__(self) -> None:
        self._numbers = np.zeros(0, np.float32)

    def add(self, part: pd.Series) -> None:
        """Takes in the numbers of a part, of which missing ones are none."""
        if len(self._numbers) < MOST:
            numbers = part.dropna().to_numpy(np.float32)
            self._numbers = np.union1d(self._numbers, numbers)

    def borders(self, max_buckets: int) -> list[float]:
        """Returns where buckets begin that share the numbers equally.

        Args:
            max_buckets: How many buckets there may be, each with its smallest
                number in it.

        Returns:
            Numbers of the column, ascending: of each bucket but the first.
        """
        buckets = min(max_buckets, len(self._numbers))
        starts = np.arange(1, buckets) * len(self._numbers) // max(buckets, 1)
        return self._numbers[starts].tolist()
