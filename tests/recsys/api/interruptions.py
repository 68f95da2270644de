"""Trainings that are interrupted."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import recsys
from recsys.training.callbacks.interruption import FiniteLoss


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, epoch: int, batch: int
) -> None:
    """Sends Ctrl-C during one batch, as a user would."""

    def press(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) == (epoch, batch):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FiniteLoss, "on_train_batch_begin", press)


def train_and_copy(
    fields: Mapping[str, Any], copies: Mapping[tuple[int, int], Path]
) -> Any:
    """Trains, and keeps what there was of the run; returns its metrics."""
    with copied(Path(fields["out"]), copies):
        return recsys.train(dict(fields))


@contextmanager
def copied(run: Path, copies: Mapping[tuple[int, int], Path]) -> Iterator[None]:
    """Copies the folder of a run that is trained, in the middle of it.

    A copy is what a process that is killed then leaves, and can be resumed: a
    run and a part of it come from one training instead of two.

    Args:
        run: The folder.
        copies: The folders to be, by epoch and batch.
    """

    def copy(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) in copies:
            shutil.copytree(run, copies[self.epoch, at])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FiniteLoss, "on_train_batch_begin", copy)
        yield


def interrupt_when(happens: Callable[[], bool]) -> None:
    """Sends Ctrl-C to this process, once something has happened."""

    def watch() -> None:
        while not happens():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()
