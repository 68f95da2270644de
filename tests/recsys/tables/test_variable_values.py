from pathlib import Path

import keras
import numpy as np
import pytest

from recsys.files.npz_file import RowBlocks
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz
from recsys.tables import TableEmbedding
from recsys.tables import variable_values as module
from recsys.tables.variable_values import variable_values

SHAPES = [(), (3,), (7, 4), (5, 2, 3), (9, 40), (1, 200)]


@pytest.fixture(autouse=True)
def _few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES_AT_ONCE", 64)


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_are_the_values(shape: tuple[int, ...]) -> None:
    wanted = np.random.default_rng(0).normal(size=shape).astype("float32")
    values = variable_values(keras.Variable(wanted))
    large = bool(shape) and shape[0] > 1 and wanted.nbytes > 64
    assert isinstance(values, RowBlocks) == large
    np.testing.assert_array_equal(np.array(values), wanted)
    if isinstance(values, RowBlocks):
        assert max(block.nbytes for block in values.blocks()) <= max(
            64, wanted[0].nbytes
        )


def test_blocks_are_written_as_the_array_they_make(tmp_path: Path) -> None:
    arrays = [np.ones((35, 2), "float32"), np.arange(90, dtype="int32")]
    variables = [
        keras.Variable(one, dtype=str(one.dtype), trainable=False)
        for one in arrays
    ]
    whole, blocks = tmp_path / "whole.npz", tmp_path / "blocks.npz"
    write_npz(whole, ((str(i), one.numpy()) for i, one in enumerate(variables)))
    values = [variable_values(variable) for variable in variables]
    assert all(isinstance(one, RowBlocks) for one in values)
    write_npz(blocks, ((str(i), one) for i, one in enumerate(values)))
    read = read_npz(blocks)
    for name, wanted in read_npz(whole).items():
        np.testing.assert_array_equal(read[name], wanted)
        assert read[name].dtype == wanted.dtype
    with np.load(blocks) as arrays_of_numpy:
        np.testing.assert_array_equal(arrays_of_numpy["0"], read["0"])


def test_table_is_saved_by_blocks_and_loaded(tmp_path: Path) -> None:
    ids = keras.Input((), dtype="int32")
    table = TableEmbedding(50, 3)
    model = keras.Model(ids, table(ids))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        loaded.get_weights()[0], table.get_weights()[0]
    )
