from collections.abc import Mapping
from typing import Any

from keras import ops

from recsys.models.id_embedding import IdEmbedding


def look_up(
    table: IdEmbedding, ids: Mapping[str, Any], training: bool | None
) -> dict[str, Any]:
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
            name: table(one, training=training) for name, one in ids.items()
        }
    flat = {name: ops.reshape(one, (-1,)) for name, one in ids.items()}
    rows = table(ops.concatenate(list(flat.values())), training=training)
    found, start = {}, 0
    for name, one in flat.items():
        end = start + ops.shape(one)[0]
        shape = (*ops.shape(ids[name]), table.output_dim)
        found[name] = ops.reshape(rows[start:end], shape)
        start = end
    return found
