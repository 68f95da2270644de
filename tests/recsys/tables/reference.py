"""Training of a table in NumPy and float64, as the papers write it."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import numpy as np

Gradient = dict[int, Any]
Update = Callable[[Any, dict[int, Any], Gradient, float, int], None]


def lazy_adam(
    table: Any, slots: dict[int, Any], gradient: Gradient, rate: float, t: int
) -> None:
    """Changes the rows that the gradient is of, in step t."""
    for row, g in gradient.items():
        m, v = slots.get(row, (0.0, 0.0))
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        slots[row] = m, v
        alpha = rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        table[row] -= alpha * m / (np.sqrt(v) + 1e-7)


def rowwise_adagrad(
    table: Any, slots: dict[int, Any], gradient: Gradient, rate: float, t: int
) -> None:
    """Changes the rows that the gradient is of."""
    for row, g in gradient.items():
        slots[row] = slots.get(row, 0.0) + g @ g / len(g)
        table[row] -= rate * g / (np.sqrt(slots[row]) + 1e-8)


def train(
    table: Any,
    head: Any,
    batches: Iterable[tuple[Mapping[str, Any], Any, Any]],
    update: Update,
    rates: Callable[[int], float],
    clip: Callable[[list[Any]], list[Any]] = list,
) -> None:
    """Trains the tests' model in place, its head by Adam.

    Args:
        table: Array `(rows, width)`.
        head: Array `(width, 1)`.
        batches: Ids `(batch, ids)` by feature, labels `(batch, 1)` and
            weights of the rows `(batch, 1)`.
        update: How rows of the table are changed.
        rates: The learning rate of each step, counted from 1.
        clip: What becomes of the gradients of the whole table and the head.
    """
    table_slots: dict[int, Any] = {}
    head_slots: dict[int, Any] = {}
    for t, (features, labels, weights) in enumerate(batches, start=1):
        ids = np.concatenate(list(features.values()), axis=1)
        pooled = table[ids].sum(axis=1)
        errors = 2 * weights * (pooled @ head - labels) / len(labels)
        whole = np.zeros_like(table)
        for column in ids.T:
            np.add.at(whole, column, errors @ head.T)
        whole, of_head = clip([whole, pooled.T @ errors])
        touched = {int(row): whole[row] for row in np.unique(ids)}
        update(table, table_slots, touched, rates(t), t)
        lazy_adam(head, head_slots, dict(enumerate(of_head)), rates(t), t)
