"""Whom the rows of a batch are shared with.

Under `keras.distribution`, that is the devices of JAX; see
`keras_moe.distribution`. On PyTorch, which has no such thing, it is a group of
processes with a device each.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any
from typing import Protocol

import keras
import numpy as np

import keras_moe.distribution


class ProcessGroup(Protocol):
    """Processes that have the same weights, and their rows of each batch.

    Attributes:
        index: Which one this is, counted from 0.
        count: How many there are.
    """

    index: int
    count: int

    def all_rows(self, rows: Any) -> Any:
        """Returns the rows of all processes, those of the first one first.

        The gradient by this process's rows is multiplied by the number of
        processes: the mean of all processes' gradients is that of a function
        of all rows.

        Args:
            rows: Tensor `(N, ...)`, of the same shape in all.
        """

    def mean(self, values: Any) -> Any:
        """Returns the mean of the processes' values, without a gradient."""

    def mean_gradients(
        self, gradients: Sequence[Any], variables: Sequence[keras.Variable]
    ) -> list[Any]:
        """Returns the means of the processes' gradients.

        Args:
            gradients: Tensors, of rows or of all, or `None`. What is `None` in
                all processes stays so, and else counts as zeros.
            variables: What they are the gradients by.
        """

    def copy_of_first(self, variables: Sequence[keras.Variable]) -> None:
        """Gives variables the values that they have in the first process."""


_groups: list[ProcessGroup] = []


def current_group() -> ProcessGroup | None:
    """The group that `shared_with` has entered, if any."""
    return _groups[-1] if _groups else None


@contextmanager
def shared_with(group: ProcessGroup) -> Iterator[None]:
    """The scope in which the rows of batches are shared with a group."""
    _groups.append(group)
    try:
        yield
    finally:
        _groups.pop()


def num_shares() -> int:
    """Among how many devices the rows of a batch are divided."""
    group = current_group()
    if group is None:
        return keras_moe.distribution.num_devices()
    return group.count


def own_rows(batch: Any) -> Any:
    """The rows of a batch that this process has.

    Args:
        batch: Arrays `(N, ...)` in any structure, the same in all processes;
            `N` divides by the number of devices.
    """
    group = current_group()
    if group is None:
        return keras_moe.distribution.own_rows(batch)
    return keras.tree.map_structure(
        lambda rows: np.split(rows, group.count)[group.index], batch
    )


def all_rows(tensors: Any) -> Any:
    """Gathers the rows of all processes of the group, if there is one.

    Args:
        tensors: Tensors `(N, ...)` or `None`, in any structure.
    """
    group = current_group()
    if group is None:
        return tensors
    return keras.tree.map_structure(
        lambda rows: None if rows is None else group.all_rows(rows), tensors
    )
