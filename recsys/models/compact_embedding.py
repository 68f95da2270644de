from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.files.npz_file import RowBlocks
from recsys.models.compact_rows import INT8
from recsys.models.compact_rows import CompactRows
from recsys.models.id_embedding import IdEmbedding
from recsys.private_names import table_of
from recsys.tables.row_lookups import backend_rows
from recsys.tables.variable_values import variable_values

_BLOCK = 1 << 16  # Rows at a time.


class CompactEmbedding(keras.layers.Layer):
    """The table of an `IdEmbedding` in fewer bytes, for serving.

    Only the rows that are looked up become floats: after the lookup, int8
    `(N, D)` is multiplied by the scales `(N, 1)` of its rows.

    Args:
        embedding: A built layer; it is not changed.
        stored: `"float16"` or `"int8"`.

    Attributes:
        input_dim: Integer, number of rows.
        output_dim: Integer, width of the rows.
        nbytes: Integer, bytes of the table and its scales.

    Call arguments:
        inputs: Int32 tensor `(...)` of ids in `[0, input_dim)`.
        training: Ignored: the table is not trained.

    Returns:
        Tensor `(..., output_dim)` of the dtype that `embedding` returns.

    Raises:
        ExportError: The table has numbers that cannot be stored so.

    Example:
    >>> embedding = IdEmbedding(10, 4)
    >>> embedding.build((None,))
    >>> CompactEmbedding(embedding, "int8").nbytes
    80
    """

    def __init__(self, embedding: IdEmbedding, stored: str) -> None:
        super().__init__(
            name=embedding.name, dtype=embedding.dtype_policy, trainable=False
        )
        self.input_dim, self.output_dim = (
            embedding.input_dim,
            embedding.output_dim,
        )
        rows = _compact(variable_values(table_of(embedding)), stored)
        self.nbytes = rows.nbytes
        self.table = self._state("table", rows.values)
        self.scales = None
        if stored == INT8:
            assert rows.scales is not None
            self.scales = self._state("scales", rows.scales[:, None])
        self.built = True

    def _state(self, name: str, values: np.ndarray) -> keras.Variable:
        return self.add_weight(
            name=name,
            shape=values.shape,
            dtype=values.dtype.name,
            initializer=lambda shape, dtype: ops.convert_to_tensor(values),
            trainable=False,
            autocast=False,
        )

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if len(inputs.shape) == 1:
            return self._looked_up(inputs)
        rows = self._looked_up(ops.reshape(inputs, (-1,)))
        return ops.reshape(rows, (*ops.shape(inputs), self.output_dim))

    def _looked_up(self, ids: Tensor) -> Tensor:
        """The rows `(N, D)` for ids `(N,)`."""
        rows = ops.cast(backend_rows.read(self.table, ids), "float32")
        if self.scales is not None:
            rows = rows * backend_rows.read(self.scales, ids)  # (N, 1)
        return ops.cast(rows, self.compute_dtype)


def _compact(table: Any, stored: str) -> CompactRows:
    """Rounds a table, a block of rows at a time.

    Args:
        table: Array `(rows, D)`, or `RowBlocks`.
        stored: As in `CompactRows.of`.
    """
    parts = [
        CompactRows.of(np.asarray(block, np.float32), stored)
        for block in _blocks(table)
    ]
    values = np.concatenate([part.values for part in parts])
    scales = [part.scales for part in parts if part.scales is not None]
    return CompactRows(values, np.concatenate(scales) if scales else None)


def _blocks(table: Any) -> Iterator[np.ndarray]:
    if isinstance(table, RowBlocks):
        yield from table.blocks()
        return
    for start in range(0, len(table), _BLOCK):
        yield table[start : start + _BLOCK]
