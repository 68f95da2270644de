import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys.errors import DataError
from recsys.models.id_embedding import IdEmbedding
from recsys.tables import TableTraining
from recsys.training.compile_model import create_optimizer
from recsys.training.optimizer_state import restore_optimizer
from recsys.training.optimizer_state import save_optimizer

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {"name": "adam"},
    "adagrad": {"name": "adagrad"},
    "lazy-adam": {"name": "adam", "table_optimizer": "lazy-adam"},
    "rowwise-adagrad": {
        "name": "adagrad",
        "table_optimizer": "rowwise-adagrad",
    },
}


class Model(TableTraining, keras.Model):
    """Two tables, in a model as the ranker is one."""


def model_with(rows: int, **options: Any) -> Model:
    ids = keras.Input((2,), dtype="int32")
    parts = [
        IdEmbedding(rows, 3, 0.0)(ids[:, 0]),
        IdEmbedding(4, 3, 0.0)(ids[:, 1]),
    ]
    outputs = keras.layers.Dense(1)(keras.layers.concatenate(parts))
    model = Model(ids, outputs)
    model.compile(create_optimizer(learning_rate=0.1, **options), loss="mse")
    return model


def trained(rows: int, **options: Any) -> Model:
    model = model_with(rows, **options)
    ids = np.arange(8).reshape(4, 2) % 4
    model.fit(ids, np.arange(4.0), epochs=2, verbose=0)
    return model


def state(model: keras.Model) -> list[Any]:
    model.optimizer.build(model.trainable_variables)
    return [variable.numpy() for variable in model.optimizer.variables]


@pytest.fixture(params=OPTIMIZERS)
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return OPTIMIZERS[request.param]


@pytest.fixture(autouse=True)
def _no_word_of_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It warns of functions that were traced often, in whichever test."""
    monkeypatch.setattr(logging.getLogger("tensorflow"), "disabled", True)


@pytest.mark.sampled(2)
def test_slots_of_known_rows_go_on_and_others_begin(
    options: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In tables that have grown; all else is what was saved, bit for bit."""
    file = tmp_path / "optimizer.npz"
    source, model = trained(5, **options), model_with(8, **options)
    initial = state(model)
    save_optimizer(file, source)
    restore_optimizer(file, model)
    assert not caplog.records
    grown = 0
    for before, begun, after in zip(
        state(source), initial, state(model), strict=True
    ):
        if before.shape == after.shape:
            np.testing.assert_array_equal(after, before)
        else:
            grown += 1
            assert (len(before), len(after)) == (5, 8)
            np.testing.assert_array_equal(after[:5], before)
            np.testing.assert_array_equal(after[5:], begun[5:])
            assert (before[:4] != begun[:4]).any()
    # Keras's Adam has two slots, all others one.
    assert grown == (2 if options == {"name": "adam"} else 1)
    assert int(model.optimizer.iterations.numpy()) == 2


def test_the_learning_rate_is_that_of_the_model(
    options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "optimizer.npz"
    source = trained(5, **options)
    source.optimizer.learning_rate = 0.7
    save_optimizer(file, source)
    model = model_with(5, **options)
    restore_optimizer(file, model)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.1)


@pytest.mark.sampled(2)
def test_it_goes_on_as_without_a_break(
    options: dict[str, Any], tmp_path: Path
) -> None:
    source, other = trained(5, **options), model_with(5, **options)
    other.set_weights(source.get_weights())
    save_optimizer(tmp_path / "optimizer.npz", source)
    restore_optimizer(tmp_path / "optimizer.npz", other)
    ids = np.array([[0, 3], [4, 1]])
    for model in (source, other):
        for _ in range(3):
            model.train_on_batch(ids, np.ones(2))
    for one, two in zip(source.weights, other.weights, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), atol=1e-6)


def test_a_table_that_comes_to_be_trained_by_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the same moments; row-wise Adagrad has other accumulators."""
    file = tmp_path / "optimizer.npz"
    for table_optimizer, missing in (("lazy-adam", 0), ("rowwise-adagrad", 1)):
        caplog.clear()
        options = {
            "name": "adam",
            "table_optimizer": table_optimizer,
            "min_table_rows": 6,
        }
        source, model = trained(5, **options), model_with(8, **options)
        save_optimizer(file, source)
        restore_optimizer(file, model)
        assert len(caplog.records) == missing
        assert f"none of {missing} of " in caplog.text or not missing
        held = [array for array in state(model) if array.shape == (8, 6)]
        assert len(held) == (table_optimizer == "lazy-adam")
        for array in held:
            m, v = (old for old in state(source) if old.shape == (5, 3))
            np.testing.assert_array_equal(array[:5], np.hstack([m, v]))
            assert m.any()
            assert not array[5:].any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "origins", [[0, -1, 2, 4, -1], [0, 2, -1], [0, 4, -1, 1, 2, -1, 3]]
)
def test_slots_of_reused_rows_begin(
    origins: list[int],
    options: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In a table of as many rows, of fewer and of more."""
    file = tmp_path / "optimizer.npz"
    source, model = trained(5, **options), model_with(len(origins), **options)
    initial = state(model)
    save_optimizer(file, source)
    restore_optimizer(file, model, {"0": np.array(origins)})
    assert not caplog.records
    slots = 0
    for before, begun, after in zip(
        state(source), initial, state(model), strict=True
    ):
        # The other table has four rows.
        if before.shape[:1] != (5,):
            np.testing.assert_array_equal(after, before)
            continue
        slots += 1
        for row, origin in enumerate(origins):
            expected = begun[row] if origin < 0 else before[origin]
            np.testing.assert_array_equal(after[row], expected)
    assert slots == (2 if options == OPTIMIZERS["adam"] else 1)


def test_without_a_file_it_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_with(5, name="adam")
    initial = state(model)
    restore_optimizer(tmp_path / "optimizer.npz", model)
    for before, after in zip(initial, state(model), strict=True):
        np.testing.assert_array_equal(after, before)
    (record,) = caplog.records
    file = tmp_path / "optimizer.npz"
    assert record.getMessage() == (
        f"{file}: expected the state of the optimizer. "
        "Received: none of 9 of 9 variables, which begins anew."
    )


def test_a_file_that_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "optimizer.npz"
    save_optimizer(file, trained(5, name="adam"))
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError, match=f"^{file}: expected a NumPy .npz"):
        restore_optimizer(file, model_with(5, name="adam"))


def test_texts_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "optimizer.npz"
    np.savez(file, iteration=np.array(["a"]))
    with pytest.raises(DataError, match=r"expected numbers in 'iteration'\."):
        restore_optimizer(file, model_with(5, name="adam"))
