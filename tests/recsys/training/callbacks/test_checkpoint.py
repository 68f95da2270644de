import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys.data import DataError
from recsys.errors import FileError
from recsys.measuring.epoch_choice import EpochChoice
from recsys.runs.run import Run
from recsys.training.callbacks.checkpoint import Checkpoint


def compiled_model() -> keras.Model:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    return model


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed after two epochs."""
    run = Run(tmp_path_factory.mktemp("killed"))
    checkpoint = Checkpoint(run, patience=3)
    model = compiled_model()
    checkpoint.set_model(model)
    for epoch in range(2):
        model.fit(np.ones((4, 2)), np.ones((4, 3)), verbose=0)
        checkpoint.on_epoch_end(epoch, {"val_loss": 0.5 - epoch / 10})
    return run.folder


@pytest.fixture
def run(killed: Path, tmp_path: Path) -> Run:
    """The same run, to be changed."""
    return Run(shutil.copytree(killed, tmp_path / "run"))


def test_model_and_progress_come_back(run: Run) -> None:
    checkpoint = Checkpoint(run, patience=3)
    model = compiled_model()
    checkpoint.restore(model)
    assert checkpoint.progress.best == 0.4
    assert [row["epoch"] for row in checkpoint.progress.history] == [1, 2]
    assert int(model.optimizer.iterations.numpy()) == 2


def test_one_variable_at_a_time_is_out_of_the_model(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = []
    read, write = keras.Variable.numpy, np.lib.format.write_array

    def numpy(variable: keras.Variable) -> Any:
        events.append("read")
        return read(variable)

    def write_array(*args: Any, **kwargs: Any) -> None:
        events.append("write")
        write(*args, **kwargs)

    checkpoint = Checkpoint(run, patience=3)
    checkpoint.restore(compiled_model())
    monkeypatch.setattr(keras.Variable, "numpy", numpy)
    monkeypatch.setattr(np.lib.format, "write_array", write_array)
    checkpoint._save()
    assert events == ["read", "write"] * (len(events) // 2)
    assert len(events) > 2


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def write_one_array(file: Path) -> None:
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))


def test_variables_of_other_shapes(run: Run) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4)])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    file = run.checkpoint / "epoch-2.npz"
    with pytest.raises(FileError, match=f"^{file}: expected numbers "):
        Checkpoint(run, patience=3).restore(model)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            lambda: [keras.layers.EinsumDense("ab,bc->ac", 3, bias_axes="c")],
            "the variable .*einsum_dense/kernel of the model at ",
        ),
        (
            lambda: [keras.layers.Dense(3), keras.layers.Dense(3)],
            "the variable .*dense/kernel of the model at ",
        ),
    ],
)
def test_variables_of_another_model(
    layers: Callable[[], list[keras.layers.Layer]], message: str, run: Run
) -> None:
    """Of the same shapes where they are compared, but for other layers."""
    model = keras.Sequential([keras.Input((2,)), *layers()])
    model.compile(keras.optimizers.Adam(0.01), loss="mse")
    file = run.checkpoint / "progress.json"
    with pytest.raises(FileError, match=f"^{file}: expected {message}"):
        Checkpoint(run, patience=3).restore(model)


def test_more_variables_than_the_model_has(run: Run) -> None:
    file = run.checkpoint / "progress.json"
    content = json.loads(file.read_text())
    content["names"].append("dense/further")
    file.write_text(json.dumps(content))
    with pytest.raises(FileError, match=r"the end of .*'dense/further'$"):
        Checkpoint(run, patience=3).restore(compiled_model())


@pytest.mark.parametrize(
    "destroy",
    [
        cut,
        Path.unlink,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"PK\x05\x06"),
        lambda file: np.savez(file, np.zeros(3)),
        lambda file: np.savez(file, *["text"] * 9),
        write_one_array,
    ],
)
def test_broken_variables(destroy: Callable[[Path], Any], run: Run) -> None:
    file = run.checkpoint / "epoch-2.npz"
    destroy(file)
    with pytest.raises(FileError, match=f"^{file}: expected "):
        Checkpoint(run, patience=3).restore(compiled_model())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variables": "../epoch-2.npz"}, " at variables. Received"),
        ({"variables": None}, "a text at variables. Received: None"),
        ({"history": {}}, "a list at history. Received: {}"),
        ({"history": [{"epoch": "1"}]}, "an integer at history[0].epoch. R"),
        (
            {"history": [{"epoch": 1, "val_loss": "low"}]},
            "a number at history[0].val_loss. Received: 'low'",
        ),
        ({"best": "low"}, "a number at best. Received: 'low'"),
        ({"wait": -1}, "at wait. Received: -1"),
    ],
)
def test_broken_progress(
    changes: dict[str, Any], message: str, run: Run
) -> None:
    file = run.checkpoint / "progress.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(FileError) as caught:
        Checkpoint(run, patience=3).restore(compiled_model())
    assert str(caught.value).startswith(f"{file}: expected ")
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff"])
def test_progress_that_is_none(content: bytes, run: Run) -> None:
    file = run.checkpoint / "progress.json"
    file.write_bytes(content)
    with pytest.raises(FileError, match=f"^{file}.*: expected "):
        Checkpoint(run, patience=3).restore(compiled_model())


def test_what_is_chosen_by_may_be_better_where_it_is_higher(
    tmp_path: Path,
) -> None:
    choice = EpochChoice("val_watch_auc", higher=True)
    checkpoint = Checkpoint(Run(tmp_path), patience=2, choice=choice)
    model = compiled_model()
    checkpoint.set_model(model)
    saved = []
    for epoch, auc in enumerate([0.6, 0.8, 0.7, 0.75]):
        model.layers[0].bias.assign(np.full(3, auc))
        logs = {"val_loss": -auc * epoch, "val_watch_auc": auc}
        checkpoint.on_epoch_end(epoch, logs)
        kept = keras.saving.load_model(Run(tmp_path).model, compile=False)
        saved.append(float(kept.layers[0].bias.numpy()[0]))
    assert saved == pytest.approx([0.6, 0.8, 0.8, 0.8])
    assert checkpoint.is_done(epochs=100)
    restored = Checkpoint(Run(tmp_path), patience=2, choice=choice)
    restored.restore(compiled_model())
    assert (restored.progress.best, restored.progress.wait) == (-0.8, 2)


def test_what_is_chosen_by_is_not_there(tmp_path: Path) -> None:
    choice = EpochChoice("val_watch_auc", higher=True)
    checkpoint = Checkpoint(Run(tmp_path), patience=2, choice=choice)
    checkpoint.set_model(compiled_model())
    with pytest.raises(DataError, match=r"no 'val_watch_auc' after epoch 1$"):
        checkpoint.on_epoch_end(0, {"val_loss": 0.5})
