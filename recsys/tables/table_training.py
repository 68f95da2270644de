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
        `recsys.tables.jax_step` does.
    """

    optimizer: Any

    def train_step(self, *arguments: Any) -> Any:
        """A step of `fit`, as Keras calls it."""
        if not isinstance(rows_of(self.optimizer), TableOptimizer):
            return super().train_step(*arguments)  # type: ignore[misc]
        if keras.backend.backend() == "jax":
            from recsys.tables.jax_step import train_step

            return train_step(self, *arguments)
        with RowLookups(self.optimizer):
            return super().train_step(*arguments)  # type: ignore[misc]
