from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from recsys.metrics.positions import Positions


def expected_at_first_positive(
    positions: Positions,
    value: Callable[[npt.NDArray[np.int64]], np.ndarray],
) -> npt.NDArray[np.float64]:
    """Expected value of a function of the position of the first positive row.

    Of n rows that tie below a others, m of them positive, the first positive
    one is the j-th with the probability

        P(j) = m / (n - j + 1) * Π_{i < j} (n - i + 1 - m) / (n - i + 1)

    for j from 1 to n - m + 1: it is positive, and those before it are not.

    Args:
        positions: The positions of the groups' rows.
        value: Takes positions counted from 1, an int64 array, and returns the
            value of each.

    Returns:
        Float64 array `(G,)`, 0 for a group without a positive row.

    References:
        McSherry and Najork, 2008, section 2.5, on the reciprocal rank.
    """
    first, groups = _first_ties(positions)
    above, num_rows = positions.above[first], positions.rows[first]
    positives = positions.positives[first]
    expected = np.zeros(len(positions.group_positives))
    # A position at which the first positive row is certain: most, if few tie.
    certain = num_rows == positives
    expected[groups[certain]] = value(above[certain] + 1)
    rest = ~certain
    above, num_rows = above[rest], num_rows[rest]
    positives, groups = positives[rest], groups[rest]
    if not len(groups):
        return expected
    lengths = num_rows - positives + 1
    starts = np.cumsum(lengths) - lengths
    # j - 1 of each of the positions, tie after tie.
    passed = np.arange(lengths.sum()) - np.repeat(starts, lengths)
    left = np.repeat(num_rows, lengths) - passed
    spread = np.repeat(positives, lengths)
    logs = np.zeros(len(passed))
    later = passed > 0
    logs[later] = np.log1p(-spread[later] / (left[later] + 1))
    # The sum over a tie is taken off where the next begins.
    logs[starts[1:]] = -np.add.reduceat(logs, starts)[:-1]
    chances = np.exp(np.cumsum(logs)) * spread / left
    values = value(np.repeat(above, lengths) + passed + 1)
    expected[groups] = np.add.reduceat(chances * values, starts)
    return expected


def _first_ties(positions: Positions) -> tuple[np.ndarray, np.ndarray]:
    """The first tie of each group with a positive row, and the group."""
    ties = np.flatnonzero(positions.positives)
    groups = np.searchsorted(positions.ranking.groups, ties, side="right") - 1
    new = np.ones(len(ties), bool)
    np.not_equal(groups[1:], groups[:-1], out=new[1:])
    return ties[new], groups[new]
