"""Checkpoints of Orbax; `test_row_split.py` trains with them."""

import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from recsys.errors import DataError
from recsys.errors.missing_package import what_to_install
from recsys.tables.marks import mark
from recsys.training.sharded_checkpoint import is_sharded
from recsys.training.sharded_checkpoint import restore_shards
from recsys.training.sharded_checkpoint import save_shards

on_jax = pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="Orbax writes arrays of JAX"
)


def test_orbax_is_asked_for_where_it_is_needed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    variable = keras.Variable(np.zeros((4, 2)))
    assert not is_sharded([variable])
    mark(variable, split=SimpleNamespace(spans_processes=True))
    with pytest.raises(ModuleNotFoundError) as error:
        is_sharded([variable])
    assert "pip install 'keras-moe[orbax]'" in what_to_install(error.value)


@on_jax
def test_what_is_not_the_checkpoint_of_a_variable(tmp_path: Path) -> None:
    folder = tmp_path / "epoch-1.orbax"
    variables = {"arr_0": keras.Variable(np.zeros((4, 2)))}
    with pytest.raises(DataError, match=r"a folder.*none of that name"):
        restore_shards(folder, variables)
    for rows in (4, 3):
        save_shards(folder, {"arr_0": keras.ops.ones((rows, 2))})
    with pytest.raises(DataError, match=r"\(4, 2\) for .*Received: \(3, 2\)"):
        restore_shards(folder, variables)
    with pytest.raises(DataError, match="a checkpoint that Orbax"):
        restore_shards(folder, {"arr_1": variables["arr_0"]})
    (folder / "_METADATA").write_text("no")
    with pytest.raises(DataError, match="a checkpoint that Orbax"):
        restore_shards(folder, variables)
