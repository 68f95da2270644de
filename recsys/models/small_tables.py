"""Lookups of many small tables, all at once."""

from collections.abc import Mapping
from collections.abc import Sequence
from itertools import groupby

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.models.id_embedding import IdEmbedding
from recsys.private_names import table_of
from recsys.tables.marks import marks
from recsys.tables.row_lookups import current_lookups

# A step copies the tables, and their gradients have all rows. Not tuned.
_MOST_ROWS = 1024
# On PyTorch, which calls layer by layer, and on JAX. On TensorFlow, an epoch
# of 38 tables took 15 % longer so (`benchmarks/README.md`, "Small tables").
_PAYS = keras.backend.backend() != "tensorflow"
_NOWHERE = 2**31 - 1


def is_small(table: object, ids: Mapping[str, Tensor]) -> bool:
    """Returns whether a table is to be looked up by `look_up_small`.

    Args:
        table: What has the rows.
        ids: By feature, what is looked up, `(batch, ...)`.
    """
    if not _PAYS or type(table) is not IdEmbedding or len(ids) != 1:
        return False
    (values,) = ids.values()
    variable = table_of(table)
    lookups = current_lookups()
    return (
        1 < table.input_dim <= _MOST_ROWS
        and len(values.shape) == 1
        and not table.lora_enabled
        and table.quantization_mode is None
        and marks(variable).split is None
        and not (lookups is not None and lookups.take(variable))
    )


def look_up_small(
    tables: Mapping[str, IdEmbedding], ids: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Looks up small tables while they are trained, those of a width at once.

    Some ids are replaced by unknown ones, as a call of each table does. Keras
    takes longer to call a layer than to look up a batch, and there may be
    forty of them.

    Args:
        tables: By feature, its table.
        ids: By feature, int32 tensor `(batch,)`.

    Returns:
        By feature, the rows for its ids, `(batch, dim)`.
    """
    names = sorted(tables, key=lambda name: tables[name].output_dim)
    groups = [
        list(members)
        for _, members in groupby(names, lambda n: tables[n].output_dim)
    ]
    numbers = _with_unknown(
        ops.stack([ops.cast(ids[n], "int32") for n in names], axis=1),
        [tables[name] for name in names],
    )
    rows: dict[str, Tensor] = {}
    for group in groups:
        members = [tables[name] for name in group]
        end = len(rows) + len(group)
        vectors = _vectors(members, numbers[:, len(rows) : end])
        rows |= {name: vectors[:, place] for place, name in enumerate(group)}
    return rows


def _with_unknown(numbers: Tensor, tables: Sequence[IdEmbedding]) -> Tensor:
    """Ids `(batch, tables)`, some of them replaced as each table says."""
    rates = np.array([table.unknown_rate for table in tables], np.float32)
    if not rates.any():
        return numbers
    draws = keras.random.uniform(
        ops.shape(numbers), seed=tables[0].seed_generator
    )
    return ops.where(ops.less(draws, rates), 0, numbers)


def _vectors(tables: Sequence[IdEmbedding], numbers: Tensor) -> Tensor:
    """The rows `(batch, tables, dim)` of tables of one width."""
    counts = np.array([table.input_dim for table in tables], np.int32)
    starts = np.cumsum(counts, dtype=np.int32) - counts
    # What a table has not must be an error, not a row of the next one.
    has = ops.logical_and(numbers >= 0, ops.less(numbers, counts))
    places = ops.where(has, ops.add(numbers, starts), _NOWHERE)
    whole = ops.concatenate([table_of(table).value for table in tables])
    # TensorFlow's gradient would be of rows without it, and each table would
    # have to find its own among them.
    whole = ops.reshape(whole, (int(counts.sum()), tables[0].output_dim))
    return ops.cast(ops.take(whole, places, axis=0), tables[0].compute_dtype)
