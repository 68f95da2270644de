from collections.abc import Callable
from typing import Any

import keras

from recsys.tables.row_lookups import RowLookups
from recsys.tables.row_lookups import rows_of
from recsys.tables.table_optimizer import TableOptimizer


class TableTraining:
    """Lets a model's `fit` train tables by rows.

    A base class beside `keras.Model`, before it. Compiled with a
    `TableOptimizer`, the model's step hands over gradients of rows for each
    `TableEmbedding`; compiled with any other optimizer, it is as it was.

    Example:
    >>> class Model(TableTraining, keras.Model):
    ...     pass

    References:
        The gradients by rows that Keras asks for nowhere: on TensorFlow
        `tf.IndexedSlices`, on PyTorch `sparse=True` of
        `torch.nn.functional.embedding`, on JAX what
        `recsys.tables.jax_row_step` does.
    """

    def train_step(self, *arguments: Any) -> Any:
        """A step of `fit`, as Keras calls it."""
        step = super().train_step  # type: ignore[misc]
        return step_by_rows(self, step, *arguments)


def step_by_rows(
    model: keras.Model, step: Callable[..., Any], *arguments: Any
) -> Any:
    """A training step, with gradients of rows for a `TableOptimizer`.

    Args:
        model: A compiled Keras model.
        step: Its step with any other optimizer: Keras's `train_step`.
        *arguments: As Keras calls `train_step` on the active backend.

    Returns:
        What Keras's `train_step` returns on the active backend.
    """
    if not isinstance(rows_of(model.optimizer), TableOptimizer):
        return step(*arguments)
    if keras.backend.backend() == "jax":
        from recsys.tables.jax_row_step import train_step

        return train_step(model, *arguments)
    with RowLookups(model.optimizer):
        return step(*arguments)
