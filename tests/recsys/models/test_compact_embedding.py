"""Tables in fewer bytes look up what NumPy says."""

import keras
import numpy as np
import pytest
from keras import ops

from recsys.files.npz_file import RowBlocks
from recsys.models import compact_embedding
from recsys.models.compact_embedding import CompactEmbedding
from recsys.models.compact_rows import CompactRows
from recsys.models.id_embedding import IdEmbedding
from recsys.private_names import table_of

pytestmark = pytest.mark.traced_once("tensorflow")


def embedding(dtype: str = "float32") -> IdEmbedding:
    layer = IdEmbedding(11, 5, dtype=dtype)
    layer.build((None,))
    return layer


@pytest.mark.parametrize("stored", ["float16", "int8"])
def test_it_looks_rows_up(stored: str) -> None:
    layer = embedding()
    table = ops.convert_to_numpy(table_of(layer))
    compact = CompactEmbedding(layer, stored)
    floats = CompactRows.of(table, stored).floats()
    ids = np.random.default_rng(0).integers(0, 11, (4, 3, 2)).astype(np.int32)
    for some in (ids[:0, 0, 0], ids[:, 0, 0], ids[:, :, 0], ids):
        rows = compact(some, training=False)
        assert tuple(rows.shape) == (*some.shape, 5)
        np.testing.assert_allclose(
            ops.convert_to_numpy(rows), floats[some], rtol=1e-6
        )
    assert np.abs(floats - table).max() <= 0.05 / 127


def test_its_rows_have_the_dtype_of_the_table_s() -> None:
    compact = CompactEmbedding(embedding("mixed_bfloat16"), "int8")
    rows = compact(np.array([1, 2], np.int32))
    assert keras.backend.standardize_dtype(rows.dtype) == "bfloat16"


@pytest.mark.once("torch")
def test_large_tables_are_rounded_a_block_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether they are arrays or come in blocks already."""
    layer = embedding()
    table = ops.convert_to_numpy(table_of(layer))
    wanted = CompactRows.of(table, "int8")
    monkeypatch.setattr(compact_embedding, "_BLOCK", 4)
    blocks = RowBlocks(
        table.shape, table.dtype, lambda: iter([table[:7], table[7:]])
    )
    for values in (table, blocks):
        monkeypatch.setattr(
            compact_embedding, "variable_values", lambda _, v=values: v
        )
        compact = CompactEmbedding(layer, "int8")
        for part, name in ((wanted.values, "table"), (wanted.scales, "scales")):
            held = ops.convert_to_numpy(getattr(compact, name))
            np.testing.assert_array_equal(held.reshape(part.shape), part)
