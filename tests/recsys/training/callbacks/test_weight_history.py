from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest

from keras_moe.callbacks import RoutingMonitor
from recsys.training.callbacks.weight_history import WeightHistory
from recsys.training.callbacks.weight_history import weight_table

pytestmark = pytest.mark.once("torch")


class Measured:
    """What a monitor has measured: half a weight more an epoch, say."""

    def __init__(self, *epochs: int) -> None:
        self.epochs = list(epochs)
        weight = np.array(epochs, "float32") / 10
        self.weights = {
            "watch": np.stack([weight, 1 - weight], axis=1),
            "null": np.stack([weight], axis=1),
        }


def monitor(*epochs: int) -> RoutingMonitor:
    return cast(RoutingMonitor, Measured(*epochs))


def write(file: Path, *epochs: int) -> str:
    """The file after a training that measured these epochs."""
    history = WeightHistory(file, monitor(*epochs))
    history.on_train_begin()
    history.on_epoch_end(epochs[-1] - 1)
    return file.read_text()


def test_table_by_hand() -> None:
    rows = weight_table(monitor(0, 1)).to_numpy().tolist()
    assert [row[:3] for row in rows] == [
        [0, "watch", 0],
        [0, "watch", 1],
        [0, "null", 0],
        [1, "watch", 0],
        [1, "watch", 1],
        [1, "null", 0],
    ]
    assert [row[3] for row in rows] == pytest.approx([0, 1, 0, 0.1, 0.9, 0.1])


def test_file_by_hand(tmp_path: Path) -> None:
    assert write(tmp_path / "weights.csv", 0, 1).splitlines() == [
        "epoch,task,expert,weight",
        "0,watch,0,0.0",
        "0,watch,1,1.0",
        "0,null,0,0.0",
        "1,watch,0,0.1",
        "1,watch,1,0.9",
        "1,null,0,0.1",
    ]


def test_training_that_goes_on_doubles_no_epoch(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.csv", 0, 1, 2, 3, 4)
    parts = tmp_path / "parts.csv"
    write(parts, 0, 1, 2)
    assert write(parts, 2, 3, 4) == whole


def test_an_epoch_after_the_last_checkpoint_is_dropped(tmp_path: Path) -> None:
    """A process may be killed between this file and the checkpoint."""
    parts = tmp_path / "parts.csv"
    write(parts, 0, 1, 2)
    write(parts, 1, 2)
    assert pd.read_csv(parts)["epoch"].drop_duplicates().tolist() == [0, 1, 2]
    assert parts.read_text() == write(tmp_path / "whole.csv", 0, 1, 2)
