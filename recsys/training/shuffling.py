from typing import Any

import numpy as np


def shuffled_rows(
    num_rows: int, buffer: int | None, generator: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Returns the rows in random order.

    A buffer that does not hold all rows is filled with the first ones. Each
    row is drawn from it at random, and the next row that was not read yet
    takes its place: what `tf.data.Dataset.shuffle` does. Rows far from each
    other in the data then stay far from each other in every epoch.

    Args:
        num_rows: Number of rows.
        buffer: How many rows the buffer holds; `None` for all.
        generator: Draws the rows.

    Returns:
        Integer array `(num_rows,)`.

    Example:
    >>> order = shuffled_rows(1000, 10, np.random.default_rng(0))
    >>> bool(np.all(order < np.arange(1000) + 10))
    True
    """
    if buffer is None or buffer >= num_rows:
        return generator.permutation(num_rows)
    held = list(range(buffer))
    places = generator.integers(buffer, size=num_rows - buffer).tolist()
    order = []
    for place, read in zip(places, range(buffer, num_rows), strict=True):
        order.append(held[place])
        held[place] = read
    return np.concatenate([order, generator.permutation(held)])
