"""Trainings that are interrupted."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from recsys.training.callbacks.interruption import FiniteLoss


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, epoch: int, batch: int
) -> None:
    """Sends Ctrl-C during one batch, as a user would."""

    def press(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) == (epoch, batch):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FiniteLoss, "on_train_batch_begin", press)


def interrupt_when(happens: Callable[[], bool]) -> None:
    """Sends Ctrl-C to this process, once something has happened."""

    def watch() -> None:
        while not happens():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()
