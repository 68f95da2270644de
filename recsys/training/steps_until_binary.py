import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pandas as pd
from keras import ops

from keras_moe.layers import Gate
from keras_moe.metrics import BinaryShare
from recsys.training.checkpoint import Progress

SHARE = BinaryShare().name
UNTIL_BINARY = "steps_until_binary"


class StepsUntilBinary(keras.callbacks.Callback):
    """Logs after how many training steps all selectors had come to a choice.

    Of gates with selectors, such as DSelect-k and COMET, each epoch logs the
    `steps` of training so far and, where all are binary at its end,
    `steps_until_binary`: the step since which they have been so. Static gates
    are looked at after each step. Gates that choose for each example are
    looked at after each epoch, on the sample of the `RoutingMonitor`, which
    comes before this among the callbacks; there the step is the end of an
    epoch. Of gates without selectors nothing is logged.

    Args:
        progress: How far the training has come; it is told since which step
            all selectors are binary.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.3, table C.4.
    """

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress
        if progress.history and not progress.step:
            progress.binary_since = progress.history[-1].get(UNTIL_BINARY)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.static_gates = [
            layer
            for layer in self.model._flatten_layers()
            if isinstance(layer, Gate)
            and layer.static
            and _selectors(layer) is not None
        ]

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if self.static_gates:
            # First: on JAX, whoever asks for the model gets variables that are
            # up to date.
            steps = self._steps()
            self._note(all(map(_is_binary, self.static_gates)), steps)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        logs = {} if logs is None else logs
        shares = [
            share
            for name, share in logs.items()
            if name == SHARE or name.endswith(f"_{SHARE}")
        ]
        if not shares:
            return
        logs["steps"] = self._steps()
        self._note(min(shares) == 1, logs["steps"])
        if self.progress.binary_since is not None:
            logs[UNTIL_BINARY] = self.progress.binary_since

    def _note(self, binary: bool, steps: int) -> None:
        if not binary:
            self.progress.binary_since = None
        elif self.progress.binary_since is None:
            self.progress.binary_since = float(steps)

    def _steps(self) -> int:
        return int(ops.convert_to_numpy(self.model.optimizer.iterations))


def _is_binary(static_gate: Gate) -> bool:
    selectors = ops.convert_to_numpy(_selectors(static_gate))
    return bool(np.isin(selectors, (0, 1)).all())


def _selectors(static_gate: Gate) -> Any:
    """Those of a gate that does not look at its inputs."""
    return static_gate.compute_selectors(ops.zeros(()))


def until_binary(history: pd.DataFrame) -> dict[str, int | None]:
    """Returns what a history says of the way to binary selectors.

    `StepsUntilBinary` says how fine the steps are.

    Args:
        history: What `read_history` returns.

    Returns:
        "training_steps" and "steps_until_binary", `None` where a selector was
        not binary in the end; nothing of gates without selectors.

    Example:
    >>> epochs = {"steps": [10.0, 20.0], "steps_until_binary": [None, 15.0]}
    >>> until_binary(pd.DataFrame(epochs))
    {'training_steps': 20, 'steps_until_binary': 15}
    """
    if "steps" not in history:
        return {}
    last = history.iloc[-1]
    since = last.get(UNTIL_BINARY, math.nan)
    return {
        "training_steps": int(last["steps"]),
        UNTIL_BINARY: None if math.isnan(since) else int(since),
    }


def percent_until_binary(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Returns the share of the training steps until all selectors were binary.

    Args:
        metrics: Those of a split, in `metrics.json`.

    Returns:
        Percent by the name of a column, `None` where a selector was not
        binary in the end; nothing of gates without selectors.

    Example:
    >>> percent_until_binary({"training_steps": 20, "steps_until_binary": 15})
    {'steps until binary (%)': 75.0}
    """
    if "training_steps" not in metrics:
        return {}
    until = metrics[UNTIL_BINARY]
    share = None if until is None else 100 * until / metrics["training_steps"]
    return {"steps until binary (%)": share}
