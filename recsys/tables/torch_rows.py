"""Rows of tables on PyTorch, whose lookups can have sparse gradients."""

import keras
import torch

from recsys.tables.row_gradient import RowGradient


def lookup(table: keras.Variable, ids: torch.Tensor) -> torch.Tensor:
    """Returns rows of a table, whose gradient is one of rows."""
    return torch.nn.functional.embedding(ids, table.value, sparse=True)


def is_row_gradient(gradient: torch.Tensor) -> bool:
    """Returns whether a gradient is of rows, not of a whole table."""
    return isinstance(gradient, RowGradient) or gradient.is_sparse


def whole(gradient: torch.Tensor) -> torch.Tensor:
    """Returns the gradient of a table that is not trained by rows."""
    return gradient


def summed(gradient: torch.Tensor, table: keras.Variable) -> RowGradient:
    """Returns the gradient with every row once, its parts summed."""
    if isinstance(gradient, RowGradient):
        return gradient  # It comes from here.
    gradient = gradient.coalesce()
    return RowGradient(gradient.values(), gradient.indices()[0])


def inner_product(
    left: torch.Tensor, right: torch.Tensor, table: keras.Variable
) -> torch.Tensor:
    """Returns the inner product of two gradients of the rows of a table."""
    both = left.coalesce() * right.coalesce()
    return both.coalesce().values().sum()


def read(variable: keras.Variable, rows: torch.Tensor) -> torch.Tensor:
    """Returns rows of a table or a slot."""
    return torch.index_select(variable.value.detach(), 0, rows)


def write(
    variable: keras.Variable, rows: torch.Tensor, values: torch.Tensor
) -> None:
    """Replaces rows of a table or a slot, in place."""
    variable.value.detach().index_copy_(0, rows, values)
