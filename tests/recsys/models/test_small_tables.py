"""Small tables that are looked up all at once, as each of them would be."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys.models.compact_embedding import CompactEmbedding
from recsys.models.id_embedding import IdEmbedding
from recsys.models.small_tables import is_small
from recsys.models.small_tables import look_up_small
from recsys.private_names import table_of
from recsys.tables import RowwiseAdagrad
from recsys.tables import TableOptimizer
from recsys.tables.row_lookups import lookups_of

ROWS = 64
# Rows and width; neighbours in the order of names have different widths.
SIZES = {"a": (5, 4), "b": (9, 6), "c": (2, 4), "d": (40, 6), "e": (7, 8)}


def made(rates: float | dict[str, float] = 0.0) -> dict[str, IdEmbedding]:
    tables = {}
    for number, (name, (count, width)) in enumerate(SIZES.items()):
        rate = rates if isinstance(rates, float) else rates[name]
        values = keras.initializers.RandomNormal(seed=number)
        table = IdEmbedding(
            count, width, rate, embeddings_initializer=values, name=name
        )
        table.build((None,))
        tables[name] = table
    return tables


def drawn(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        name: generator.integers(0, count, ROWS).astype(np.int32)
        for name, (count, _) in SIZES.items()
    }


class SumModel(keras.Model):
    """Sums what it looks up, for a loss that says something of every row."""

    def __init__(self, tables: dict[str, IdEmbedding], at_once: bool) -> None:
        super().__init__()
        self.tables = tables
        self.at_once = at_once

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if self.at_once:
            rows = look_up_small(self.tables, inputs)
        else:
            rows = {
                name: self.tables[name](ids, training=training)
                for name, ids in inputs.items()
            }
        sums = [ops.sum(ops.exp(rows[name]), axis=-1) for name in sorted(rows)]
        return ops.stack(sums, axis=1)


def test_the_rows_are_those_of_each_table() -> None:
    tables, ids = made(), drawn()
    rows = look_up_small(tables, ids)
    assert set(rows) == set(SIZES)
    for name, table in tables.items():
        np.testing.assert_array_equal(
            ops.convert_to_numpy(rows[name]),
            ops.convert_to_numpy(table(ids[name])),
        )


def test_a_step_changes_each_table_as_its_own_lookup_does() -> None:
    ids = drawn()
    targets = np.random.default_rng(1).normal(size=(ROWS, len(SIZES)))
    trained = []
    for at_once in (True, False):
        model = SumModel(made(), at_once)
        model.compile(keras.optimizers.Adam(0.1), loss="mse")
        given: Any = {"batch_size": ROWS // 2, "shuffle": False, "verbose": 0}
        model.fit(ids, targets, epochs=2, **given)
        trained.append(model.tables)
    for name in SIZES:
        ours, theirs = (tables[name].get_weights()[0] for tables in trained)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("number", [-1, SIZES["b"][0]])
def test_an_id_that_a_table_has_not_is_no_row_of_the_next(number: int) -> None:
    tables, ids = made(), drawn()
    ids["b"][3] = number
    try:
        rows = look_up_small(tables, ids)["b"]
    except (IndexError, errors_of_backend()):
        return  # What a lookup in one table raises, too.
    assert np.isnan(ops.convert_to_numpy(rows)[3]).all()


def errors_of_backend() -> type[Exception]:
    if keras.backend.backend() != "tensorflow":
        return IndexError
    import tensorflow as tf

    return tf.errors.InvalidArgumentError


def test_ids_of_each_table_become_unknown_at_its_rate() -> None:
    rates = {"a": 0.0, "b": 0.5, "c": 0.25, "d": 0.9, "e": 0.0}
    tables = made(rates)
    ids = {
        name: np.full(4000, count - 1, np.int32)
        for name, (count, _) in SIZES.items()
    }
    rows = look_up_small(tables, ids)
    for name, rate in rates.items():
        unknown = tables[name].get_weights()[0][0]
        are_unknown = ops.convert_to_numpy(rows[name]) == unknown
        assert are_unknown.all(axis=1).mean() == pytest.approx(rate, abs=0.04)
    again = look_up_small(tables, ids)["b"]
    assert not np.array_equal(
        ops.convert_to_numpy(again), ops.convert_to_numpy(rows["b"])
    )


def test_what_is_no_small_table_has_its_own_lookup() -> None:
    tables, ids = made(), drawn()
    table, values = tables["a"], ids["a"]
    # On TensorFlow, none has: it would take longer.
    pays = keras.backend.backend() != "tensorflow"
    assert is_small(table, {"a": values}) == pays
    assert not is_small(table, {})
    assert not is_small(table, {"a": values, "list": values})
    assert not is_small(table, {"a": values[:, None]})
    assert not is_small(CompactEmbedding(table, "float16"), {"a": values})
    large = IdEmbedding(2000, 4)
    large.build((None,))
    assert not is_small(large, {"a": values})
    optimizer = TableOptimizer(keras.optimizers.Adam(0.1), RowwiseAdagrad())
    optimizer.build([table_of(table)])
    with lookups_of(optimizer):
        assert not is_small(table, {"a": values})
