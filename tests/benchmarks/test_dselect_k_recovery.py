from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from keras import ops

from keras_moe.layers import ConstantGate
from keras_moe.layers import MMoE


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("dselect_k_recovery")


def test_labels_come_from_the_planted_experts(script: ModuleType) -> None:
    problem = script.make_problem(200, seed=3)
    assert problem.inputs.shape == (400, 10)
    assert problem.kernels.shape == (16, 10, 4)
    assert len(set(problem.planted)) == 4
    assert set(np.unique(problem.labels)) == {0, 1}
    assert 0.25 <= problem.labels.mean() <= 0.75
    # The planted experts' units separate the labels linearly.
    units = np.maximum(problem.inputs @ problem.kernels[problem.planted], 0)
    features = units.mean(axis=0)
    signs = 2 * problem.labels[:, 0] - 1
    unit = np.zeros(4)
    for _ in range(2_000):  # Perceptron.
        wrong = signs * (features @ unit) <= 0
        if not wrong.any():
            break
        unit += signs[wrong] @ features[wrong]
    assert ((features @ unit > 0) == (signs > 0)).mean() > 0.99


def test_the_seed_decides(script: ModuleType) -> None:
    first, again, other = (script.make_problem(20, seed) for seed in (1, 1, 2))
    for name in ("inputs", "labels", "kernels", "planted"):
        values = getattr(first, name)
        np.testing.assert_array_equal(values, getattr(again, name))
    assert not np.array_equal(first.kernels, other.kernels)


@pytest.mark.draws
@pytest.mark.once("torch")
def test_training_moves_the_gates_and_leaves_the_experts(
    script: ModuleType, tmp_path: Path
) -> None:
    problem = script.make_problem(300, seed=0)
    model = script.make_model(
        problem.kernels, 2, lambda: script.make_gates(10.0, 1e-4)
    )
    (mixture,) = (layer for layer in model.layers if isinstance(layer, MMoE))
    monitor = script.train(problem, model, 0.05, epochs=2, every=1)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(mixture.experts.kernels[0]), problem.kernels
    )
    kinds = ("dselect-k", "top-k", "noisy-top-k")
    names = [f"{kind} {start}" for start in (0, 1) for kind in kinds]
    assert list(monitor.weights) == names
    for weights in monitor.weights.values():
        assert weights.shape == (3, 16)
        assert not np.array_equal(weights[0], weights[-1])
    # No two starts are alike.
    assert len({rows[0].tobytes() for rows in monitor.weights.values()}) == 6
    starts = script.measure(
        problem, model, {name: w[-1] for name, w in monitor.weights.items()}
    )
    assert starts["gate"].tolist() == [*kinds, *kinds]
    assert (starts["selected"][starts["gate"] != "dselect-k"] == 4).all()
    script.draw(monitor, starts, str(tmp_path / "weights.png"))
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.traced_once("tensorflow")
def test_measures_by_hand(script: ModuleType) -> None:
    problem = script.make_problem(50, seed=0)
    model = script.make_model(
        problem.kernels, 1, lambda: script.make_gates(10.0, 0.0)
    )
    # By hand: all planted, beside a fifth; two planted; none.
    others = np.setdiff1d(np.arange(16), problem.planted)
    weights = {f"{start} 0": np.zeros(16) for start in "abc"}
    weights["a 0"][problem.planted] = 0.24
    weights["a 0"][others[0]] = 0.04
    weights["b 0"][[*problem.planted[:2], *others[:2]]] = 0.25
    weights["c 0"][others[:4]] = 0.25
    starts = script.measure(problem, model, weights)
    assert starts["gate"].tolist() == ["a", "b", "c"]
    assert starts["found"].tolist() == [4, 2, 0]
    assert starts["selected"].tolist() == [5, 4, 4]
    logits = model.predict(problem.inputs[50:], verbose=0).astype("float64")
    chances = 1 / (1 + np.exp(-logits))
    hit = np.where(problem.labels[50:] == 1, chances, 1 - chances)
    np.testing.assert_allclose(
        starts["loss"], -np.log(hit).mean(axis=0), rtol=1e-4
    )


def test_logits_are_in_the_order_of_the_starts(script: ModuleType) -> None:
    problem = script.make_problem(50, seed=0)
    kernels = problem.kernels.copy()
    kernels[0] = 0
    silent, loud = np.eye(16)[0], np.eye(16)[1]
    model = script.make_model(
        kernels,
        1,
        lambda: {"b": ConstantGate(silent), "a": ConstantGate(loud)},
    )
    logits = model.predict(problem.inputs[:8], verbose=0)
    assert (logits[:, 0] == 0).all()
    assert (logits[:, 1] != 0).any()


def test_summary_by_hand(script: ModuleType) -> None:
    starts = pd.DataFrame(
        {
            "gate": ["top-k", "top-k", "dselect-k"],
            "found": [1, 4, 4],
            "selected": [4, 4, 5],
            "loss": [0.5, 0.1, 0.2],
        }
    )
    assert script.summarize(starts).to_dict("records") == [
        {
            "gate": "top-k",
            "found": 4,
            "selected": 4,
            "loss": 0.1,
            "mean_found": 2.5,
            "mean_selected": 4.0,
            "mean_loss": 0.3,
            "all_found": 0.5,
        },
        {
            "gate": "dselect-k",
            "found": 4,
            "selected": 5,
            "loss": 0.2,
            "mean_found": 4.0,
            "mean_selected": 5.0,
            "mean_loss": 0.2,
            "all_found": 1.0,
        },
    ]
