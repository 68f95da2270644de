"""Exported models whose tables are int8 or float16."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from keras import ops

import recsys
from recsys import Dataset
from recsys import Ranker
from recsys import Schema
from recsys.api import export as stage
from recsys.api.compact_export import TABLES_FILE
from recsys.api.compact_export import described
from recsys.cli import run as command_line
from recsys.exporting import export_format
from recsys.exporting import item_index
from recsys.exporting.item_index import CompactBruteForce
from recsys.exporting.item_index import create_vectors
from recsys.exporting.served_ranker import ServedRanker
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.models.compact_rows import CompactRows
from recsys.models.compact_tables import compact_tables
from recsys.private_names import table_of
from recsys.tables import RowwiseAdagrad
from recsys.tables import TableOptimizer
from tests.recsys.exporting.test_onnx_model import assert_same
from tests.recsys.exporting.test_onnx_model import ranker
from tests.recsys.test_feature_kinds import SCHEMA
from tests.recsys.test_feature_kinds import log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow",
        reason="models are exported under TensorFlow",
    ),
]

TABLES = {"user", "item", "device", "place", "genres", "tags", "hour"}


def shop() -> Dataset:
    """Ids with vocabularies and hashed, lists, sequences, shared tables."""
    schema = Schema(SCHEMA["name"], SCHEMA["features"], SCHEMA["tasks"])
    columns = {**schema.features, **schema.tasks}
    rows = log(60)[[*columns]]
    for name, kind in columns.items():
        rows[name] = kind.check(rows[name], "log")
    return Dataset(schema, {"train": rows})


def outputs(model: Ranker, rows: Any) -> dict[str, np.ndarray]:
    predicted = model(model.encode(rows), training=False)
    return {task: ops.convert_to_numpy(predicted[task]) for task in predicted}


def held_tables(model: Ranker, stored: str) -> dict[str, CompactRows]:
    """What NumPy makes of the tables."""
    return {
        name: CompactRows.of(ops.convert_to_numpy(table_of(each)), stored)
        for name, each in model.embeddings.items()
    }


def outputs_of_floats(
    model: Ranker, tables: dict[str, CompactRows], rows: Any
) -> dict[str, np.ndarray]:
    """The same of a model with the tables that NumPy returns."""
    for name, each in model.embeddings.items():
        table_of(each).assign(tables[name].floats())
    return outputs(model, rows)


def assert_close(
    received: dict[str, np.ndarray], wanted: dict[str, np.ndarray]
) -> None:
    for task, values in wanted.items():
        np.testing.assert_allclose(
            received[task].reshape(values.shape), values, rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("stored", ["int8", "float16"])
def test_an_onnx_file_holds_what_numpy_returns(
    stored: str, tiny: Dataset, tmp_path: Path
) -> None:
    """Of all kinds of features as int8, of ids alone as float16."""
    data = shop() if stored == "int8" else tiny
    model, rows = ranker(data, gate="top-k"), data.split("train")
    tables = held_tables(model, stored)
    assert stored == "float16" or tables.keys() >= TABLES
    wanted = outputs_of_floats(model, tables, rows)
    tables = held_tables(model, stored)  # Of the same numbers.
    sizes = compact_tables(model, stored)
    assert sizes.after == sum(each.nbytes for each in tables.values())
    assert sizes.before == sum(4 * each.values.size for each in tables.values())
    assert_close(outputs(model, rows), wanted)
    export_format("onnx").write(ServedRanker(model), tmp_path / "model")
    assert_same(model, tmp_path / "model", rows)
    file = onnx.load(tmp_path / "model" / "model.onnx")
    held = [onnx.numpy_helper.to_array(one) for one in file.graph.initializer]
    floats = [one.shape for one in held if one.dtype == np.float32]
    for table in tables.values():
        assert any(np.array_equal(table.values, one) for one in held)
        assert table.values.shape not in floats


def test_a_saved_model_holds_the_integers(tmp_path: Path) -> None:
    import tensorflow as tf

    data = shop()
    model, rows = ranker(data, gate="top-k"), data.split("train")[:9]
    tables = held_tables(model, "int8")
    wanted = outputs_of_floats(model, tables, rows)
    compact_tables(model, "int8")
    form = export_format("tf_saved_model")
    served = ServedRanker(model)
    form.write(served, tmp_path / "model")
    variables = tf.train.load_checkpoint(
        str(tmp_path / "model" / "variables" / "variables")
    )
    types = variables.get_variable_to_dtype_map()
    held = [
        variables.get_tensor(name)
        for name, dtype in types.items()
        if dtype == tf.int8
    ]
    assert len(held) == len(tables)
    for table in tables.values():
        assert any(np.array_equal(table.values, one) for one in held)
    received = form.load(tmp_path / "model")(served.raw(rows))
    assert_close(received, wanted)


def test_tables_of_several_streams(tiny: Dataset) -> None:
    model = ranker(tiny, gate="top-k", architecture="stem")
    rows = tiny.split("train")
    wanted = outputs_of_floats(model, held_tables(model, "int8"), rows)
    compact_tables(model, "int8")
    assert_close(outputs(model, rows), wanted)


def test_tables_that_are_trained_by_rows(tiny: Dataset) -> None:
    model, rows = ranker(tiny, gate="top-k"), tiny.split("train")
    inner = keras.optimizers.Adam()
    model.compile(TableOptimizer(inner, RowwiseAdagrad()), loss="mse")
    before = {
        name: ops.convert_to_numpy(table_of(each))
        for name, each in model.embeddings.items()
    }
    labels = {task: np.ones((len(rows), 1), np.float32) for task in model.tasks}
    model.fit(model.encode(rows), labels, verbose=0)
    tables = held_tables(model, "int8")
    for name, each in model.embeddings.items():
        assert (ops.convert_to_numpy(table_of(each)) != before[name]).any()
    wanted = outputs_of_floats(model, tables, rows)
    compact_tables(model, "int8")
    assert_close(outputs(model, rows), wanted)


@pytest.mark.parametrize("stored", ["float32", "float16", "int8"])
def test_vectors_of_items_are_looked_up_for_a_formula(stored: str) -> None:
    import tensorflow as tf

    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    rows = vectors
    if stored != "float32":
        rows = CompactRows.of(vectors, stored).floats()
    received = create_vectors(vectors, stored)(tf.constant([[0, 5], [1, 1]]))
    rows = np.vstack([np.zeros((1, 3), np.float32), rows])
    np.testing.assert_allclose(received, rows[[[0, 5], [1, 1]]], rtol=1e-6)


def test_a_compact_catalogue_is_searched_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import tensorflow as tf

    monkeypatch.setattr(item_index, "_BLOCK", 7)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(30, 6)).astype(np.float32)
    vectors[20] = vectors[3]  # The first of equal ones is first.
    queries = rng.normal(size=(4, 6)).astype(np.float32)
    for stored in ("int8", "float16"):
        rows = CompactRows.of(vectors, stored)
        scores = queries @ rows.floats().T
        order = np.argsort(-scores, axis=1, kind="stable")
        found, numbers = CompactBruteForce(rows)(tf.constant(queries), 30)
        np.testing.assert_array_equal(numbers, order + 1)
        np.testing.assert_allclose(
            found, np.take_along_axis(scores, order, 1), rtol=1e-5, atol=1e-6
        )


def test_the_command_says_what_it_costs(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "--run", str(run), "--out", str(tmp_path / "out")]
    assert command_line([*words, "--tables", "int8"]) == 0
    printed = capsys.readouterr().out
    cost = read_json(tmp_path / "out/1/assets.extra/tables.json")
    ratio = cost["bytes"]["float32"] / cost["bytes"]["int8"]
    assert f"in int8, {ratio:.2f} times smaller than in float32" in printed
    metrics = recsys.evaluate(run, recsys_data(run))
    for task in ("watch", "rating"):
        losses = cost["test"][f"loss of {task}"]
        wanted = metrics["tasks"][task]["loss"]
        assert losses["float32"] == pytest.approx(wanted, rel=1e-5)
        assert losses["int8"] != losses["float32"]
        assert losses["int8"] == pytest.approx(wanted, rel=0.01)
        assert f"Test loss of {task}: {losses['int8']:.6f} in int8" in printed


def test_without_the_data_only_the_size_is_said(tmp_path: Path) -> None:
    cost = {
        "tables": "int8",
        "bytes": {"float32": 4_000_000, "int8": 1_250_000},
    }
    (tmp_path / TABLES_FILE).parent.mkdir()
    write_json(tmp_path / TABLES_FILE, cost)
    assert [*described(tmp_path)] == [
        "Tables of 1.25 MB in int8, 3.20 times smaller than in float32"
    ]
    assert not [*described(tmp_path / "float32")]


def recsys_data(run: Path) -> str:
    return str(read_json(run / "config.json")["data"])


def test_other_tables_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "--run", str(run), "--out", str(tmp_path / "out")]
    assert command_line([*words, "--tables", "int4"]) == 2
    error = capsys.readouterr().err
    assert "`tables` must be one of float32, float16, int8" in error
    assert not (tmp_path / "out").exists()


def test_another_backend_s_process_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    class Done:
        returncode = 0

    def start(words: list[str], env: object) -> Done:
        started.extend(words)
        return Done()

    monkeypatch.setattr(stage, "run_alongside", start)
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(FileNotFoundError):  # It has written nothing.
        stage.export_to(run, tmp_path / "out", "onnx", tables="float16")
    place = started.index("--tables")
    assert started[place + 1] == "float16"
