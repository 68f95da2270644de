from collections.abc import Mapping
from math import ceil
from math import log2
from typing import Any
from typing import Protocol

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Tensor
from recsys.features.feature import FittedFeature
from recsys.tables import TableEmbedding

_NARROWEST, _WIDEST = 4, 32


@keras.saving.register_keras_serializable(package="recsys")
class IdEmbedding(TableEmbedding):
    """An embedding whose row 0 stands for every unknown id, and is learned.

    Ids of the training split are never unknown, so a random share of them is
    treated as unknown while training: row 0 learns to predict for an id about
    which nothing is known.

    Args:
        input_dim: Integer, number of rows: known ids + 1.
        output_dim: Integer, width of the embedding.
        unknown_rate: Float in `[0, 1)`, the share of the ids that is replaced
            by 0 while training. Defaults to 0.01.
        **kwargs: Those of `recsys.tables.TableEmbedding`.

    Call arguments:
        inputs: Int32 tensor `(...)` of ids in `[0, input_dim)`.
        training: Boolean, whether to replace ids.

    Returns:
        Tensor `(..., output_dim)`.

    Raises:
        ValueError: If `unknown_rate` is outside `[0, 1)`.

    Example:
    >>> import numpy as np
    >>> tuple(IdEmbedding(10, 4)(np.array([0, 9])).shape)
    (2, 4)
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        unknown_rate: float = 0.01,
        **kwargs: object,
    ) -> None:
        super().__init__(input_dim, output_dim, **kwargs)
        if not 0 <= unknown_rate < 1:
            raise ValueError(
                "`unknown_rate` must be in [0, 1). "
                f"Received: unknown_rate={unknown_rate}"
            )
        self.unknown_rate = unknown_rate
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if training and self.unknown_rate > 0:
            draw = keras.random.uniform(
                ops.shape(inputs), seed=self.seed_generator
            )
            inputs = ops.where(draw < self.unknown_rate, 0, inputs)
        if self.input_dim == 1:
            # All are unknown. On PyTorch, Keras tries a model with ids of 1.
            inputs = ops.zeros_like(inputs)
        return super().call(inputs)

    def get_config(self) -> Config:
        return {**super().get_config(), "unknown_rate": self.unknown_rate}


class RowTable(Protocol):
    """A layer that looks rows up, `output_dim` wide."""

    output_dim: int

    def __call__(self, inputs: Tensor, training: bool | None = None) -> Any:
        """Returns the rows `(..., output_dim)` for ids `(...)`."""


def look_up(
    table: RowTable, ids: Mapping[str, Tensor], training: bool | None
) -> dict[str, Tensor]:
    """Looks up whatever takes the rows of a table, all at once.

    A table that is read once in a step is updated once: its gradient is of the
    rows of the batch, summed, whichever feature they are from.

    Args:
        table: The table.
        ids: By feature, int32 tensor `(batch, ...)`.
        training: Whether the table is trained.

    Returns:
        By feature, the rows for its ids, `(batch, ..., dim)`.
    """
    if len(ids) == 1:
        return {
            name: table(values, training=training)
            for name, values in ids.items()
        }
    flat = {name: ops.reshape(values, (-1,)) for name, values in ids.items()}
    rows = table(ops.concatenate(list(flat.values())), training=training)
    split, start = {}, 0
    for name, values in flat.items():
        end = start + ops.shape(values)[0]
        shape = (*ops.shape(ids[name]), table.output_dim)
        split[name] = ops.reshape(rows[start:end], shape)
        start = end
    return split


def table_widths(
    features: Mapping[str, FittedFeature], embedding_dim: int | None
) -> dict[str, int]:
    """Returns the width of each feature's table.

    A feature that says its width has that one. Without an `embedding_dim`, a
    table of n rows is 2 ⌈log2 n⌉ wide, from 4 to 32: two of something do not
    need what a million of something do. `benchmarks/README.md`, "Defaults of
    tables", compares it with others.

    Args:
        features: The features, fitted.
        embedding_dim: Width of all tables of which nothing else is said.

    Returns:
        The width by feature, of those that have a table of their own.

    Example:
    >>> import pandas as pd
    >>> from recsys.features import Id
    >>> features = {"item": Id().fit([pd.Series(range(1000))])}
    >>> table_widths(features, 128), table_widths(features, None)
    ({'item': 128}, {'item': 20})
    """
    return {
        name: feature.dim or embedding_dim or _by_rows(feature.num_rows)
        for name, feature in features.items()
        if feature.num_rows is not None
    }


def _by_rows(num_rows: int) -> int:
    width = 2 * ceil(log2(max(num_rows, 1)))
    return min(max(width, _NARROWEST), _WIDEST)
