"""Whom the rows of a batch are shared with.

Under `keras.distribution`, that is the devices of JAX; see
`keras_moe.distribution`. On PyTorch, which has no such thing, it is a group of
processes with a device each; on TensorFlow, a group of the replicas of one
process.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from typing import Protocol

import keras
import numpy as np

import keras_moe.distribution
from keras_moe.types import Structure
from keras_moe.types import Tensor

if TYPE_CHECKING:
    pass


class ProcessGroup(Protocol):
    """Processes that have the same weights, and their rows of each batch.

    Attributes:
        index: Which one this is, counted from 0.
        count: How many there are.
        in_one_process: Boolean, whether they are replicas in one process,
            each of which "processes" means below. What `fit` and `predict`
            are given then has the rows of all.
    """

    count: int
    in_one_process: bool

    @property
    def index(self) -> int: ...

    def all_rows(self, rows: Tensor) -> Tensor:
        """Returns the rows of all processes, those of the first one first.

        The gradient by this process's rows is multiplied by the number of
        processes: the mean of all processes' gradients is that of a function
        of all rows.

        Args:
            rows: Tensor `(N, ...)`, of the same shape in all.
        """

    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum of the processes' values, without a gradient."""

    def mean(self, values: Tensor) -> Tensor:
        """Returns the mean of the processes' values, without a gradient."""

    def mean_gradients(
        self,
        gradients: Sequence[Tensor],
        variables: Sequence[keras.Variable],
        by_rows: Sequence[bool],
    ) -> list[Tensor]:
        """Returns the means of the processes' gradients.

        Args:
            gradients: Tensors, of rows or of all, or `None`. What is `None` in
                all processes stays so, and else counts as zeros.
            variables: What they are the gradients by.
            by_rows: Which of these are tables whose gradients are of rows.
        """

    def copy_of_first(self, variables: Sequence[keras.Variable]) -> None:
        """Gives variables the values that they have in the first process."""

    def on_each(self, function: Callable[[], None]) -> None:
        """Calls a function in each process, of which this is one."""


_groups: list[ProcessGroup] = []


def current_group() -> ProcessGroup | None:
    """The group that `shared_with` has entered, if any."""
    return _groups[-1] if _groups else None


@contextmanager
def shared_with(group: ProcessGroup) -> Iterator[None]:
    """The scope in which the rows of batches are shared with a group."""
    _groups.append(group)
    try:
        with keras_moe.distribution.rows_shared(group.sum):
            yield
    finally:
        _groups.pop()


def num_shares() -> int:
    """Among how many devices the rows of a batch are divided."""
    group = current_group()
    if group is None:
        return keras_moe.distribution.num_devices()
    return group.count


def own_rows(batch: Structure) -> Structure:
    """The rows of a batch that this process has.

    Args:
        batch: Arrays `(N, ...)` in any structure, the same in all processes;
            `N` divides by the number of devices.
    """
    group = current_group()
    if group is None:
        return keras_moe.distribution.own_rows(batch)
    return shares(batch)[group.index]


def shares(batch: Structure) -> list[Structure]:
    """The rows of a batch that each device has, in the devices' order."""
    count = num_shares()
    parts = [np.array_split(rows, count) for rows in keras.tree.flatten(batch)]
    return [
        keras.tree.pack_sequence_as(batch, list(share))
        for share in zip(*parts, strict=True)
    ]


def all_rows(tensors: Structure) -> Structure:
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


def all_outputs(tensors: Structure) -> Structure:
    """Gathers what `predict` is to return for the rows of all processes.

    Args:
        tensors: As for `all_rows`.
    """
    group = current_group()
    if group is not None and group.in_one_process:
        return tensors  # Keras does so.
    return all_rows(tensors)


def share_of_sum(gradient: Tensor) -> Tensor:
    """Returns what an optimizer of Keras is to be given for a mean gradient.

    On replicas of one process, it adds up what each of them gives.
    """
    group = current_group()
    if group is None or not group.in_one_process or gradient is None:
        return gradient
    import tensorflow as tf

    return tf.math.scalar_mul(1 / group.count, gradient)


def whole_loss(loss: Tensor) -> Tensor:
    """Returns a loss of Keras as it is on one device.

    On replicas of one process, Keras divides losses by their number, for the
    sum of their gradients to be the mean.
    """
    group = current_group()
    if group is not None and group.in_one_process:
        return loss * group.count
    return loss
