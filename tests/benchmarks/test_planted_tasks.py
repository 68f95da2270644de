import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras import ops

from keras_moe.layers import DSelectKGate
from keras_moe.layers import Gate
from keras_moe.layers import TopKGate
from recsys.data.datasets.planted_tasks import PlantedTasks
from recsys.data.datasets.planted_tasks import planted_tasks

pytestmark = pytest.mark.once("torch")


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("planted_tasks")


@pytest.fixture(scope="module")
def planted() -> PlantedTasks:
    return planted_tasks(num_tasks=32, num_rows=700)


class GivenWeights(Gate):
    """Gives the tasks weights that are not trained."""

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights.shape[1])
        self.values = weights

    def build(self, input_shape: Any) -> None:
        pass

    def compute_weights(
        self, inputs: Any, training: bool | None, mask: Any
    ) -> Any:
        return ops.matmul(inputs, self.values)


def test_planted_weights_make_the_model_exact(
    script: ModuleType, planted: PlantedTasks
) -> None:
    model = script.TaskMixture(32, GivenWeights(planted.weights))
    model.build((None, 10))
    model.experts.kernels[0].assign(planted.kernels)
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
    weights = np.full((16, 4), 0.25, "float32")
    model = script.TaskMixture(16, GivenWeights(weights))
    trained = script.Trained({}, model, weights[:, None])
    measured = script.measure(planted, trained)
    assert measured["unrelated"] is None
    assert measured["related"] == 1


SETTINGS = {
    "learning_rate": 0.2,
    "epochs": 3,
    "gamma": 10.0,
    "entropy_weight": 0.001,
    "softmax_entropy_weight": 0.01,
    "first_temperature": 0.01,
}


def make_model(script: ModuleType, gate: str) -> Any:
    sizes = script.Sizes(num_tasks=32, num_steps=6)
    create = script.COMPETITORS[gate].create
    model = script.TaskMixture(32, create(sizes, SETTINGS))
    model.build((None, 10))
    return model


def test_row_t_of_the_gate_is_the_static_gate_of_task_t(
    script: ModuleType,
) -> None:
    gates = {
        name: make_model(script, name).gate for name in ("dselect-k", "top-k")
    }
    tasks = np.eye(32, dtype="float32")
    together = {
        name: ops.convert_to_numpy(gate(tasks)) for name, gate in gates.items()
    }
    for task in (0, 31):
        static: Any = DSelectKGate(8, 4, gamma=10.0, static=True)
        static.build((None, 1))
        static.selector_logits.assign(gates["dselect-k"].selector_kernel[task])
        static.weight_logits.assign(gates["dselect-k"].weight_kernel[task])
        alone = ops.convert_to_numpy(static(np.zeros((1, 1))))
        np.testing.assert_allclose(
            together["dselect-k"][task], alone, rtol=1e-5
        )
        static = TopKGate(8, 4, static=True)
        static.build((None, 1))
        static.bias.assign(gates["top-k"].kernel[task])
        alone = ops.convert_to_numpy(static(np.zeros((1, 1))))
        np.testing.assert_allclose(together["top-k"][task], alone, rtol=1e-5)


@pytest.mark.parametrize(
    ("gate", "weight"), [("dselect-k", 0.001), ("softmax-entropy", 0.01)]
)
def test_the_entropies_of_all_tasks_are_added(
    gate: str, weight: float, script: ModuleType
) -> None:
    """At the start they are near those of uniform selectors, 4 log 8."""
    model = make_model(script, gate)
    for rows in (1, 7):
        model(np.zeros((rows, 10), "float32"), training=True)
        (loss,) = map(float, map(ops.convert_to_numpy, model.losses))
        assert loss == pytest.approx(32 * weight * 4 * np.log(8), rel=0.01)


def test_loss_is_summed_over_the_tasks(script: ModuleType) -> None:
    labels = ops.array([[1.0, 2.0], [0.0, 0.0]])
    predictions = ops.array([[1.0, 0.0], [3.0, 1.0]])
    losses = script.squared_error(labels, predictions)
    np.testing.assert_allclose(ops.convert_to_numpy(losses), [4, 10])


@pytest.mark.slow
@pytest.mark.parametrize(
    "gate",
    ["dselect-k", "top-k", "softmax-annealing", "softmax-entropy", "softmax"],
)
def test_every_gate_learns(gate: str, script: ModuleType) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=700)
    trained = script.train(planted, script.COMPETITORS[gate], SETTINGS, seed=0)
    inputs, labels = planted.split("test")
    assert trained.mse((inputs, labels)) < np.square(labels).mean() / 2
    assert trained.weights.shape == (16, 4, 4)
    assert (trained.weights[:, 0] != trained.weights[:, -1]).any(axis=1).all()


@pytest.mark.slow
@pytest.mark.once("jax")
@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="other backends take batches"
)
@pytest.mark.parametrize("rows", [700, 1792])  # 500 and 1,280: 5 batches.
def test_an_epoch_in_one_step_is_the_same_training(
    rows: int, script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=rows)
    competitor = script.COMPETITORS["softmax-annealing"]
    at_once = script.train(planted, competitor, SETTINGS, seed=0)
    monkeypatch.setattr(script, "scans_epochs", lambda: False)
    by_batch = script.train(planted, competitor, SETTINGS, seed=0)
    assert np.ptp(by_batch.weights) > 0.1
    np.testing.assert_allclose(at_once.weights, by_batch.weights, atol=1e-3)
    test = planted.split("test")
    assert at_once.mse(test) == pytest.approx(by_batch.mse(test), rel=1e-2)


def test_annealing_takes_all_steps_of_the_training(
    script: ModuleType,
) -> None:
    planted = planted_tasks(num_tasks=16, num_rows=700)  # 500, two batches.
    competitor = script.COMPETITORS["softmax-annealing"]
    gate = script.train(planted, competitor, SETTINGS, seed=0).model.gate
    assert gate.num_steps == int(ops.convert_to_numpy(gate.num_updates)) == 6


def test_the_search_draws_different_points_of_the_published_grid(
    script: ModuleType,
) -> None:
    competitor = script.COMPETITORS["dselect-k"]
    points = script.draw_points(competitor, script.PUBLISHED_GRID, 20)
    assert len({tuple(point.items()) for point in points}) == 20
    names = ["learning_rate", "epochs", "gamma", "entropy_weight"]
    for point in points:
        assert list(point) == names
        assert all(point[name] in script.PUBLISHED_GRID[name] for name in names)
    top_k = script.COMPETITORS["top-k"]
    assert len(script.draw_points(top_k, script.PUBLISHED_GRID, 20)) == 12


def test_a_grid_without_a_search_is_trained_in_order(
    script: ModuleType,
) -> None:
    grid = {"learning_rate": [0.1, 0.01], "epochs": [2, 1]}
    points = script.draw_points(script.COMPETITORS["top-k"], grid, 0)
    assert [tuple(point.values()) for point in points] == [
        (0.1, 2),
        (0.1, 1),
        (0.01, 2),
        (0.01, 1),
    ]


def test_the_best_point_is_kept(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that select 4 experts or fewer, the lowest validation MSE."""
    outcomes = {0.1: (0.3, 4.0), 0.01: (0.2, 4.0), 0.001: (0.1, 4.5)}
    points = [{"learning_rate": rate} for rate in outcomes]
    seen = []

    class Trained:
        def __init__(self, settings: dict[str, float]) -> None:
            self.settings = settings
            self.validation, self.experts = outcomes[settings["learning_rate"]]

        def mse(self, rows: tuple[np.ndarray, np.ndarray]) -> float:
            assert len(rows[0]) == 100  # The validation split.
            return self.validation

    def run(gate: str, point: dict[str, float], repetition: int) -> Any:
        seen.append(point)
        return {}, Trained(point)

    study = script.Study(16, rows=700, data_seed=0)
    monkeypatch.setattr(study, "run", run)
    assert study.choose("top-k", points)["learning_rate"] == 0.01
    assert seen == points
    outcomes |= {rate: (rate, 8.0) for rate in outcomes}
    assert study.choose("top-k", points)["learning_rate"] == 0.001
    outcomes[0.001] = (np.nan, 4.0)  # Has settled, but its loss is no number.
    outcomes[0.1] = (9.0, 4.0)
    assert study.choose("top-k", points)["learning_rate"] == 0.1
    seen.clear()
    assert study.choose("top-k", points[:1]) == points[0]
    assert not seen  # Nothing to choose.


def test_the_script_reports_every_training_and_the_means(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = "--tasks 16 --gates top-k --rows 70 --epochs 1 2 "
    arguments += "--learning-rate 0.1 --repetitions 2"
    monkeypatch.setattr(sys, "argv", ["planted_tasks.py", *arguments.split()])
    script.main()
    printed = capsys.readouterr().out.splitlines()
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    assert [line["repetition"] for line in lines] == [-1, -1, 0, 1]
    assert [line["epochs"] for line in lines[:2]] == [1, 2]
    searched = min(lines[:2], key=lambda line: line["validation_mse"])
    assert {line["epochs"] for line in lines[2:]} == {searched["epochs"]}
    assert lines[2]["test_mse"] != lines[3]["test_mse"]
    assert printed[-1].startswith("| 16 | top-k |")


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


@pytest.mark.draws
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
