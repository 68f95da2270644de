import keras
import numpy as np
from keras import ops

from keras_moe.layers import Gate
from keras_moe.types import Logs
from keras_moe.types import Tensor
from recsys.measuring.curves import UNTIL_BINARY
from recsys.private_names import each_layer
from recsys.training.callbacks.checkpoint import Progress

# Of `keras_moe.metrics.BinaryShare`, by default. Making one would start the
# backend, and JAX's has to know of other processes before.
SHARE = "binary_share"


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

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.static_gates = [
            layer
            for layer in each_layer(self.model)
            if isinstance(layer, Gate)
            and layer.static
            and _selectors(layer) is not None
        ]

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.static_gates:
            # First: on JAX, whoever asks for the model gets variables that are
            # up to date.
            steps = self._steps()
            self._note(all(map(_is_binary, self.static_gates)), steps)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = {} if logs is None else logs
        shares = [
            share
            for name, share in logs.items()
            if name == SHARE or name.endswith(f"_{SHARE}")
        ]
        if not shares:
            return
        logs["steps"] = steps = self._steps()
        self._note(min(shares) == 1, steps)
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


def _selectors(static_gate: Gate) -> Tensor | None:
    """Those of a gate that does not look at its inputs."""
    return static_gate.compute_selectors(ops.zeros(()))
