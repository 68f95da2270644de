"""Values of variables whose rows may be split, as if they were not."""

from typing import Any

import keras
import numpy as np

from recsys.tables.marks import marks
from recsys.tables.row_split import Shape


def spans_processes(variable: Any) -> bool:
    """Returns whether no process has all values of a variable."""
    split = marks(variable).split
    if split is not None:
        return split.spans_processes
    # Of experts that devices divide, JAX knows it.
    value = variable.value
    return not (
        getattr(value, "is_fully_addressable", True)
        or value.is_fully_replicated
    )


def shape_of(variable: keras.Variable) -> Shape:
    """Returns the shape of a variable, without padding."""
    split = marks(variable).split
    shape = tuple(variable.shape)
    return shape if split is None else (split.num_rows, *shape[1:])


def assign(variable: keras.Variable, value: np.ndarray) -> None:
    """Gives a variable a value, which has no padding.

    Args:
        variable: A variable.
        value: What it is assigned, of the shape `shape_of(variable)`.

    Raises:
        ValueError: The value has another shape.
    """
    split = marks(variable).split
    if split is not None and tuple(value.shape) == shape_of(variable):
        value = split.place(value)
    variable.assign(value)
