from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from keras import ops

from keras_moe.layers import ConstantGate
from keras_moe.layers import MMoE
from recsys.data.planted_tasks import PlantedTasks
from recsys.data.planted_tasks import planted_tasks


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("planted_tasks")


@pytest.fixture(scope="module")
def planted() -> PlantedTasks:
    return planted_tasks(num_tasks=32, num_rows=700)


def test_planted_weights_make_the_model_exact(
    script: ModuleType, planted: PlantedTasks
) -> None:
    rows = iter(planted.weights)
    model = script.make_model(32, 10, lambda n: ConstantGate(next(rows)))
    (mixture,) = (layer for layer in model.layers if isinstance(layer, MMoE))
    mixture.experts.kernels[0].assign(planted.kernels)
    trained = script.Trained({}, model, planted.weights[:, None])
    assert trained.mse(planted.split("test")) < 1e-8
    assert script.measure(planted, trained) == {
        "test_mse": 0.0,
        "related": 1.0,
        "unrelated": 0.0,
        "experts": 4.0,
    }


def test_one_group_has_no_unrelated_tasks(script: ModuleType) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=70)
    model = script.make_model(16, 10, lambda n: ConstantGate([0.25] * n))
    weights = np.full((16, 1, 4), 0.25)
    measured = script.measure(planted, script.Trained({}, model, weights))
    assert measured["unrelated"] is None
    assert measured["related"] == 1


def test_loss_is_summed_over_the_tasks(script: ModuleType) -> None:
    labels = ops.array([[1.0, 2.0], [0.0, 0.0]])
    predictions = ops.array([[1.0, 0.0], [3.0, 1.0]])
    losses = script.squared_error(labels, predictions)
    np.testing.assert_allclose(ops.convert_to_numpy(losses), [4, 10])


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["dselect-k", "top-k", "softmax"])
def test_every_gate_learns(gate: str, script: ModuleType) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=700)
    settings = {"learning_rate": 0.2, "gamma": 10.0, "entropy_weight": 0.001}
    trained = script.train(
        planted, script.COMPETITORS[gate], settings, epochs=3, seed=0
    )
    inputs, labels = planted.split("test")
    assert trained.mse((inputs, labels)) < np.square(labels).mean() / 2
    assert trained.weights.shape == (16, 4, 4)
    assert (trained.weights[:, 0] != trained.weights[:, -1]).any(axis=1).all()


def test_the_best_of_the_grid_is_kept(
    script: ModuleType,
    planted: PlantedTasks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of those that select 4 experts or fewer, the lowest validation MSE."""
    outcomes = {0.1: (0.3, 4.0), 0.01: (0.2, 4.0), 0.001: (0.1, 4.5)}
    seen = []

    class Trained:
        def __init__(self, settings: dict[str, float]) -> None:
            self.settings = settings
            self.validation, self.experts = outcomes[settings["learning_rate"]]

        def mse(self, rows: tuple[np.ndarray, np.ndarray]) -> float:
            assert len(rows[0]) == 100  # The validation split.
            return self.validation

    def train(
        _: object, __: object, settings: dict[str, float], *args: int
    ) -> Trained:
        seen.append(settings)
        return Trained(settings)

    monkeypatch.setattr(script, "train", train)
    rates = list(outcomes)
    grid = {"learning_rate": rates, "gamma": [5.0], "entropy_weight": [0]}
    best = script.tune(planted, script.COMPETITORS["dselect-k"], grid, 1, 0)
    assert best.settings == {
        "learning_rate": 0.01,
        "gamma": 5.0,
        "entropy_weight": 0,
    }
    script.tune(planted, script.COMPETITORS["top-k"], grid, 1, 0)
    assert seen[3:] == [{"learning_rate": rate} for rate in rates]
    outcomes |= {rate: (rate, 8.0) for rate in rates}
    best = script.tune(planted, script.COMPETITORS["softmax"], grid, 1, 0)
    assert best.settings == {"learning_rate": 0.001}


@pytest.mark.parametrize(
    ("num_experts", "k", "expected"),
    [
        (4, 4, 1.0),
        (2, 1, 1 / 2),
        # One, or two, of three pairs shared: 4 of 6 and 1 of 6.
        (4, 2, 4 / 6 * 1 / 3 + 1 / 6),
    ],
)
def test_expected_jaccard_by_hand(
    num_experts: int, k: int, expected: float, script: ModuleType
) -> None:
    assert script.expected_jaccard(num_experts, k) == pytest.approx(expected)


def test_figures(script: ModuleType, tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "tasks": [16, 16, 32, 32],
            "gate": ["a", "b", "a", "b"],
            "test_mse": [1.0, 2.0, 3.0, 4.0],
            "related": [1.0, 1.0, 0.5, 0.2],
            "unrelated": [np.nan, np.nan, 0.1, 0.2],
        }
    )
    script.draw_figure(table, str(tmp_path / "measures.png"))
    trained = {"a": script.Trained({}, None, np.full((32, 2, 8), 1 / 8))}
    script.draw_curves(trained, str(tmp_path / "weights.png"))
    for name in ("measures.png", "weights.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
