from pathlib import Path
from typing import Any

import keras
import numpy as np

from recsys.training.callbacks.epoch_summaries import EpochSummaries

LOGS = [{"loss": 0.5, "val_loss": 0.75}, {"loss": 0.25, "val_loss": 0.5}]


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values by the tag of each file."""
    from tensorboard.backend.event_processing import event_file_loader
    from tensorboard.util import tensor_util

    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.rglob("events.*")):
        for event in event_file_loader.EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                tag = f"{file.parent.name}/{value.tag}"
                number = float(tensor_util.make_ndarray(value.tensor))
                found.setdefault(tag, []).append((event.step, number))
    return found


def trained(callback: Any) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback.set_model(model)
    callback.on_train_begin()
    for epoch, logs in enumerate(LOGS):
        callback.on_epoch_begin(epoch)
        for batch in range(3):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch, {"loss": np.float32(batch)})
        callback.on_epoch_end(epoch, dict(logs))
    callback.on_train_end()


def test_files_have_what_keras_writes(tmp_path: Path) -> None:
    trained(keras.callbacks.TensorBoard(tmp_path / "a", write_graph=False))
    trained(EpochSummaries(tmp_path / "b"))
    written = events(tmp_path / "b")
    assert written == events(tmp_path / "a")
    assert written["train/epoch_loss"] == [(0, 0.5), (1, 0.25)]
    assert written["validation/epoch_loss"] == [(0, 0.75), (1, 0.5)]


def test_nothing_is_written_before_an_epoch_has_ended(tmp_path: Path) -> None:
    callback = EpochSummaries(tmp_path / "logs")
    callback.set_model(keras.Sequential([keras.Input((1,))]))
    callback.on_train_begin()
    callback.on_train_batch_begin(0)
    callback.on_train_batch_end(0, {"loss": 1.0})
    callback.on_train_end()
    assert not (tmp_path / "logs").exists()
