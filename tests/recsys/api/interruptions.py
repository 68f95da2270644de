"""Trainings that are interrupted."""

import os
import signal
from typing import Any

import pytest

from recsys.training.callbacks.finite_loss import FiniteLoss


def interrupt_at(
    monkeypatch: pytest.MonkeyPatch, epoch: int, batch: int
) -> None:
    """Sends Ctrl-C during one batch, as a user would."""

    def press(self: FiniteLoss, at: int, logs: Any = None) -> None:
        if (self.epoch, at) == (epoch, batch):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(FiniteLoss, "on_train_batch_begin", press)
