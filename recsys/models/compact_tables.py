from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from recsys.models.compact_embedding import CompactEmbedding
from recsys.models.compact_rows import CompactRows
from recsys.models.ranker import Ranker
from recsys.private_names import replace_layer
from recsys.retrieval.retrieval import Retrieval

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class TableBytes:
    """Sizes of tables before and after.

    Attributes:
        before: Bytes in float32.
        after: Bytes as they are stored.
    """

    before: int = 0
    after: int = 0

    def __add__(self, other: "TableBytes") -> "TableBytes":
        return TableBytes(self.before + other.before, self.after + other.after)


def compact_tables(ranker: Ranker, stored: str) -> TableBytes:
    """Stores the embedding tables of a ranker in fewer bytes, in place.

    The ranker cannot be trained or saved after that. Target statistics, the
    embedding of a scenario and what the experts consist of stay float32.

    Args:
        ranker: A trained ranker.
        stored: `"float16"` or `"int8"`.

    Returns:
        The sizes of all its tables.

    Raises:
        ExportError: A table has numbers that cannot be stored so.
    """
    return _compact(ranker, ranker.embeddings, [*ranker.embeddings], stored)


def compact_retrieval(
    retrieval: Retrieval, stored: str, items: bool = True
) -> TableBytes:
    """Stores what items are retrieved with in fewer bytes, in place.

    That is the vectors of the items, and free vectors of the query's id; what
    is trained on histories, the tables of a sequence tower, stays float32.

    Args:
        retrieval: The trained retrieval of a ranker.
        stored: `"float16"` or `"int8"`.
        items: Whether the vectors of the items are stored so; their index has
            what they are rounded to. Defaults to `True`.

    Returns:
        The sizes of what is stored so.

    Raises:
        ExportError: A vector has numbers that cannot be stored so.
    """
    names = [] if retrieval.query_id is None else [retrieval.query_id]
    sizes = _compact(retrieval, retrieval.id_vectors, names, stored)
    if not items:
        return sizes
    vectors = retrieval.vectors
    rows = CompactRows.of(vectors, stored)
    retrieval.update_index(rows.floats())
    return sizes + TableBytes(vectors.nbytes, rows.nbytes)


def _compact(
    owner: keras.layers.Layer,
    layers: dict[str, Any],
    names: Sequence[str],
    stored: str,
) -> TableBytes:
    """Replaces embeddings among the layers that a layer holds by name."""
    sizes = TableBytes()
    for name in names:
        compact = CompactEmbedding(layers[name], stored)
        replace_layer(owner, layers, name, compact)
        numbers = compact.input_dim * compact.output_dim
        sizes += TableBytes(_FLOAT_BYTES * numbers, compact.nbytes)
    return sizes
