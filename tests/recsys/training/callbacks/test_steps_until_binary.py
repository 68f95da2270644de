from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest

import recsys
from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import PermutedGate
from keras_moe.layers import TopKGate
from recsys import TrainConfig
from recsys.measuring.curves import percent_until_binary
from recsys.measuring.curves import read_history
from recsys.measuring.curves import until_binary
from recsys.reporting.planned_run import PlannedRun
from recsys.reporting.trained import read_trained
from recsys.training.callbacks.checkpoint import Progress
from recsys.training.callbacks.steps_until_binary import StepsUntilBinary

pytestmark = pytest.mark.once("torch")

Settings = Callable[..., dict[str, Any]]
CERTAIN, OPEN = 9.0, 0.0


class Scripted(keras.callbacks.Callback):
    """Sets a static gate's bits after each step, before others look."""

    def __init__(self, gate: DSelectKGate, bits: list[float]) -> None:
        super().__init__()
        self.gate, self.bits = gate, iter(bits)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self.model  # JAX gives the variables back to who asks.
        logits = self.gate.selector_logits
        logits.assign(np.full(logits.shape, next(self.bits)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        binary = self.gate.selector_logits.numpy().min() == CERTAIN
        logs["watch_binary_share"] = float(binary)
        logs["rating_binary_share"] = 1.0


class Gated(keras.Model):
    """Has a gate, and learns something else."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate
        self.gate.trainable = False
        self.dense = keras.layers.Dense(1)

    def build(self, shape: Any) -> None:
        self.gate.build(shape)
        self.dense.build(shape)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)


def trained(
    bits: list[float],
    epochs: int,
    wrap: Callable[[Gate], Gate] = lambda gate: gate,
    history: Any = None,
) -> dict[str, list[float]]:
    """Trains for 4 steps an epoch."""
    gate = DSelectKGate(4, k=2, static=True)
    model = Gated(wrap(gate))
    model.build((None, 3))
    model.compile("sgd", "mse")
    x, y = np.ones((8, 3)), np.ones((8, 1))
    logged: dict[str, list[float]] = model.fit(
        x,
        y,
        batch_size=2,
        epochs=epochs,
        verbose=0,
        callbacks=[
            Scripted(gate, bits),
            StepsUntilBinary(Progress(history or [])),
        ],
    ).history
    return logged


@pytest.mark.parametrize("wrap", [lambda gate: gate, PermutedGate])
def test_step_of_a_static_gate_is_exact(wrap: Any) -> None:
    bits = [OPEN, CERTAIN, OPEN, OPEN, OPEN, CERTAIN, CERTAIN, CERTAIN]
    logged = trained([*bits, *[CERTAIN] * 4], 3, wrap)
    assert logged["steps"] == [4, 8, 12]
    assert logged["steps_until_binary"] == [6, 6]


def test_a_break_starts_anew() -> None:
    logged = trained([CERTAIN] * 5 + [OPEN, CERTAIN, CERTAIN], 2)
    assert logged["steps_until_binary"] == [1, 7]


def test_never_binary_logs_no_step() -> None:
    logged = trained([CERTAIN, CERTAIN, CERTAIN, OPEN], 1)
    assert logged["steps"] == [4]
    assert "steps_until_binary" not in logged


def test_a_training_that_goes_on_remembers() -> None:
    before = [{"steps": 4.0}, {"steps": 8.0, "steps_until_binary": 5.0}]
    logged = trained([CERTAIN] * 4, 1, history=before)
    assert logged["steps_until_binary"] == [5]


def test_history_of_a_run_ends_with_what_counts() -> None:
    history = pd.DataFrame(
        {"steps": [5.0, 10.0], "steps_until_binary": [5.0, float("nan")]}
    )
    assert until_binary(history) == {
        "training_steps": 10,
        "steps_until_binary": None,
    }
    assert until_binary(pd.DataFrame({"loss": [0.5]})) == {}
    assert percent_until_binary(until_binary(history)) == {
        "steps until binary (%)": None
    }
    assert percent_until_binary({}) == {}


def test_gate_without_selectors_has_none() -> None:
    assert TopKGate(4, k=2).compute_selectors(np.ones((2, 3))) is None


@pytest.mark.slow
@pytest.mark.parametrize("static", [False, True])
def test_run_says_when_its_gates_were_binary(
    static: bool, settings: Settings, tmp_path: Path
) -> None:
    options = {"gamma": 1e-6, "entropy_weight": 1.0, "static": static}
    fields = settings(tmp_path, gate="dselect-k", gate_options=options)
    fields |= {"epochs": 3, "learning_rate": 0.05}
    metrics = recsys.train(fields)
    history = read_history(tmp_path / "history.csv")
    assert history["steps"].tolist() == [5, 10, 15]  # 160 rows by 32.
    for task in ("watch", "rating"):
        assert history[f"{task}_binary_share"].iloc[-1] == 1
    for split in ("validation", "test"):
        assert metrics[split]["training_steps"] == 15
        until = metrics[split]["steps_until_binary"]
        assert until == history["steps_until_binary"].iloc[-1]
        # A step of 0.05 leaves (-5e-7, 5e-7) at once.
        assert until == (1 if static else 5)
    percent = {"steps until binary (%)": pytest.approx(100 * until / 15)}
    result = PlannedRun("", "DSelect-k", TrainConfig(**fields)).result()
    assert result is not None
    assert result.items() >= percent.items()
    (trained,) = read_trained([tmp_path])
    assert trained.scores().items() >= percent.items()
