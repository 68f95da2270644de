import os
import socket
import time
from pathlib import Path

import keras
import numpy as np

from recsys.files.json_files import JsonMapping

_VALIDATION = "val_"


class EpochSummaries(keras.callbacks.Callback):
    """Writes the metrics of each epoch for TensorBoard.

    The files have what `keras.callbacks.TensorBoard` would write of epochs,
    which imports TensorFlow, on any backend, for seconds. Here each epoch is
    on the disk when it has ended, and there is no file before.

    Args:
        folder: Folder of the logs; those of the training are in `train`, those
            that begin with `val_` in `validation`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self._files: dict[str, Path] = {}

    def on_train_begin(self, logs: JsonMapping | None = None) -> None:
        """Begins new files: others may be those of an interrupted run."""
        self._files = {}

    def on_epoch_end(self, epoch: int, logs: JsonMapping | None = None) -> None:
        values: dict[str, dict[str, float]] = {"train": {}, "validation": {}}
        for name, value in (logs or {}).items():
            split = "validation" if name.startswith(_VALIDATION) else "train"
            tag = f"epoch_{name.removeprefix(_VALIDATION)}"
            values[split][tag] = float(value)
        rate = keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)
        values["train"]["epoch_learning_rate"] = float(rate)
        for split, scalars in values.items():
            if scalars:
                self._write(split, epoch, scalars)

    def _write(self, split: str, epoch: int, scalars: dict[str, float]) -> None:
        # Only here: they take a moment to import.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb
        from tensorboard.summary.writer.record_writer import RecordWriter

        now = time.time()
        events = [
            Event(
                wall_time=now,
                step=epoch,
                summary=scalar_pb(tag, np.float32(value)),
            )
            for tag, value in scalars.items()
        ]
        if split not in self._files:
            self._files[split] = _new_file(self.folder / split)
            events.insert(0, Event(wall_time=now, file_version="brain.Event:2"))
        with self._files[split].open("ab") as file:
            records = RecordWriter(file)
            for event in events:
                records.write(event.SerializeToString())


def _new_file(folder: Path) -> Path:
    """A file that is not there yet, of a name that TensorBoard looks for."""
    folder.mkdir(parents=True, exist_ok=True)
    place = f"{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
    return folder / f"events.out.tfevents.{int(time.time()):010}.{place}.v2"
