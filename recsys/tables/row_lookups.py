from contextvars import ContextVar
from contextvars import Token
from importlib import import_module
from types import ModuleType
from typing import Protocol
from typing import Self

import keras

from keras_moe.types import Tensor

# Operations on rows of a table, in a module for each backend:
# `is_row_gradient`, `whole`, `summed`, `inner_product`, `read` and `write`; and
# `lookup`, which JAX has elsewhere: `recsys.tables.jax_row_step`.
backend_rows: ModuleType = import_module(
    f"recsys.tables.{keras.backend.backend()}_rows"
)


class TrainsByRows(Protocol):
    """An optimizer that wants the gradients of some tables by rows."""

    def trains_by_rows(self, variable: keras.Variable) -> bool:
        """Returns whether a variable is such a table."""


class RowLookups:
    """The scope of a training step in which tables are looked up by rows.

    Outside of it, and for any other optimizer, a lookup is the plain one.

    Args:
        optimizer: It says which tables.
    """

    def __init__(self, optimizer: TrainsByRows) -> None:
        self.optimizer = optimizer
        self._tokens: list[Token[RowLookups | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())

    def take(self, table: keras.Variable) -> bool:
        """Returns whether a table is to be looked up by `lookup`."""
        return self.optimizer.trains_by_rows(table)

    def lookup(self, table: keras.Variable, ids: Tensor) -> Tensor:
        """Returns rows of a table, `(*ids.shape, width)`."""
        return backend_rows.lookup(table, ids)


_current: ContextVar[RowLookups | None] = ContextVar(
    "row_lookups", default=None
)


def current_lookups() -> RowLookups | None:
    """The scope that is entered, if any."""
    return _current.get()


class _NoRows:
    """Any other optimizer: it wants whole gradients of all tables."""

    def trains_by_rows(self, variable: keras.Variable) -> bool:
        return False


def rows_of(optimizer: keras.optimizers.Optimizer) -> TrainsByRows:
    """Returns the optimizer, or what stands for one that knows no rows.

    Raises:
        ValueError: Keras scales the loss for an optimizer that trains by rows,
            as it does for each under the policy `mixed_float16`: that asks
            for whole gradients.
    """
    if hasattr(getattr(optimizer, "inner_optimizer", None), "trains_by_rows"):
        raise ValueError(
            "`optimizer` must be one that trains tables by rows itself, not "
            "within a LossScaleOptimizer: take the policy 'mixed_bfloat16', or "
            "compile with `auto_scale_loss=False` and a `loss_scale_factor` of "
            f"the inner optimizer. Received: optimizer={optimizer.name!r}, as "
            "Keras wraps it under the policy 'mixed_float16'"
        )
    return optimizer if hasattr(optimizer, "trains_by_rows") else _NoRows()


def lookups_of(optimizer: keras.optimizers.Optimizer) -> RowLookups:
    """The scope of a training step with any optimizer."""
    return RowLookups(rows_of(optimizer))
