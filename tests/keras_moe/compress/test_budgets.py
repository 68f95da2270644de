"""Models with a budget, and fewer experts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.compress import Report
from keras_moe.compress import merge
from keras_moe.compress import prune
from keras_moe.layers import BudgetGate
from keras_moe.layers import COMETGate
from keras_moe.layers import Gate
from keras_moe.layers import GroupedGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers import record_routing
from tests.keras_moe.compress.models import mixture_of

pytestmark = pytest.mark.traced_once("tensorflow")

N = 8
LEFT = 5
Compress = Callable[..., tuple[keras.Model, Report]]

INNER: dict[str, Callable[[], Gate]] = {
    "softmax": lambda: SoftmaxGate(N, kernel_initializer="normal", seed=1),
    "top-k": lambda: TopKGate(N, k=6, seed=1),
    "comet": lambda: COMETGate(N, k=6, gamma=1e-3, seed=1),
}


def model_of(inner: Gate, **kwargs: Any) -> keras.Model:
    """A model whose second input is the budget of each row."""
    gate = BudgetGate(inner, **{"k": 2, **kwargs})
    inputs, budget = keras.Input((4,)), keras.Input(())
    mixture = MoE(gate, MLPExperts(N, [5, 3], seed=2), name="mixture")
    return keras.Model([inputs, budget], mixture(inputs, budget=budget))


def draw(rows: int = 400) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")


def data_of(x: np.ndarray, budget: float = 2.0) -> list[np.ndarray]:
    return [x, np.full(len(x), budget, "float32")]


def experts_of(gate: BudgetGate, x: np.ndarray, budget: float | None) -> float:
    """Experts per row on average."""
    weights = to_numpy(gate(x, budget=budget))
    return float(np.count_nonzero(weights, axis=1).mean())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compress", [prune, merge])
@pytest.mark.parametrize("inner", INNER)
def test_the_smaller_model_keeps_to_its_budgets(
    inner: str, compress: Compress, tmp_path: Path
) -> None:
    x, model = draw(), model_of(INNER[inner]())
    mixture_of(model).gate(x, training=True)
    smaller, _ = compress(model, data_of(x), LEFT, batch_size=150)
    gate = mixture_of(smaller).gate
    assert isinstance(gate, BudgetGate)
    assert (gate.num_experts, gate.target) == (LEFT, 2)
    assert gate.train_budgets == (1, LEFT)
    assert int(gate.num_updates) == 1
    # As many as a budget says, or all that the gate inside gives weight.
    inside = np.count_nonzero(to_numpy(gate.gate(x)), axis=1)
    assert inside.max() <= LEFT
    for budget in (1, 1.5, 2, 3, 4.25, LEFT):
        mean = experts_of(gate, x, budget)
        if budget < 3.5 or inner == "softmax":
            assert mean == pytest.approx(budget, rel=0.02)
        assert mean <= min(budget * 1.02, inside.mean())
    assert experts_of(gate, x, None) == pytest.approx(2, rel=0.02)
    # The smaller model hands budgets on, and is saved with its thresholds.
    expected = to_numpy(smaller(data_of(x, 3.0)))
    assert abs(expected - to_numpy(smaller(data_of(x, 1.0)))).max() > 1e-3
    smaller.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        to_numpy(loaded(data_of(x, 3.0))), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.once("torch")
def test_the_gate_inside_is_cut_or_grouped() -> None:
    x = draw()
    for inner in INNER:
        model = model_of(INNER[inner]())
        pruned, merged = (f(model, data_of(x), LEFT)[0] for f in (prune, merge))
        cut = type(INNER[inner]()) if inner != "comet" else GroupedGate
        assert type(mixture_of(pruned).gate.gate) is cut
        assert type(mixture_of(merged).gate.gate) is GroupedGate


@pytest.mark.once("torch")
def test_budgets_are_at_most_the_experts_left() -> None:
    model = model_of(INNER["softmax"](), k=6.5, train_budgets=(3, 7))
    smaller, _ = prune(model, data_of(draw()), LEFT)
    gate = mixture_of(smaller).gate
    assert (gate.target, gate.train_budgets) == (LEFT, (3, LEFT))
    assert experts_of(gate, draw(), None) == LEFT


@pytest.mark.once("torch")
def test_a_mass_stays_a_mass() -> None:
    gate = BudgetGate(INNER["softmax"](), mass=0.6)
    inputs = keras.Input((4,))
    mixture = MoE(gate, MLPExperts(N, 3), name="mixture")
    model = keras.Model(inputs, mixture(inputs))
    smaller, _ = prune(model, draw(), LEFT)
    cut = mixture_of(smaller).gate
    assert (cut.mass, cut.takes_budget) == (0.6, False)
    shares = to_numpy(cut.gate(draw()))
    kept = to_numpy(cut(draw())) > 0
    assert (np.where(kept, shares, 0).sum(axis=1) >= 0.6).all()


def test_gates_of_tasks_have_thresholds_of_their_own() -> None:
    x = draw()
    gates = {
        task: BudgetGate(
            SoftmaxGate(N, kernel_initializer=start, seed=i), k=budget
        )
        for i, (task, start, budget) in enumerate(
            [("a", "zeros", 2), ("b", "normal", 3)]
        )
    }
    inputs = keras.Input((4,))
    experts = MLPExperts(N, 3, seed=1)
    model = keras.Model(inputs, MMoE(gates, experts, name="mixture")(inputs))
    # All rows are alike for one of them.
    gates["a"].gate.bias.assign(np.linspace(0, 1, N, dtype="float32"))
    smaller, _ = prune(model, x, LEFT)
    cut = mixture_of(smaller).gates
    assert experts_of(cut["b"], x, None) == pytest.approx(3, rel=0.02)
    shares = np.sort(to_numpy(cut["a"].gate(x[:1]))[0])[::-1]
    # Of budgets 2, 3, 4 and 5: the shares of the second expert, and so on.
    np.testing.assert_allclose(
        to_numpy(cut["a"].thresholds)[4::4], shares[1:], rtol=1e-5
    )


def test_neither_padding_nor_nan_has_a_say() -> None:
    rng = np.random.default_rng(1)
    tokens = rng.normal(size=(60, 3, 4)).astype("float32")
    padded = 50 * rng.normal(size=(60, 3, 4)).astype("float32")
    padded[:, 2] = 0
    padded[:, :2] = tokens[:, :2]
    padded[7, 1] = np.nan
    inputs = keras.Input((3, 4))
    gate = BudgetGate(INNER["softmax"](), k=2)
    mixture = MoE(gate, MLPExperts(N, 3, seed=2), name="mixture")
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, mixture(masked))
    smaller, _ = prune(model, padded, LEFT)
    cut = mixture_of(smaller).gate
    rows = np.delete(tokens[:, :2].reshape(-1, 4), 15, axis=0)
    assert experts_of(cut, rows, 2) == pytest.approx(2, abs=1 / len(rows))


def test_a_second_mixture_is_set_behind_the_first() -> None:
    x, experts = draw(), [MLPExperts(N, 4, seed=i) for i in range(2)]
    inputs = keras.Input((4,))
    outputs = inputs
    for i, bank in enumerate(experts):
        gate = BudgetGate(
            SoftmaxGate(N, kernel_initializer="normal", seed=i), k=2
        )
        outputs = MoE(gate, bank, name=f"mixture_{i}")(outputs)
    model = keras.Model(inputs, outputs)
    smaller, _ = prune(model, x, LEFT, batch_size=64)
    with record_routing() as records:
        smaller(x)
    for record in records:
        (weights,) = record.weights.values()
        mean = np.count_nonzero(to_numpy(weights), axis=1).mean()
        assert mean == pytest.approx(2, rel=0.02)


@pytest.mark.once("torch")
def test_gates_of_smaller_mixtures_keep_their_thresholds() -> None:
    x, inputs = draw(), keras.Input((4,))
    small = MoE(BudgetGate(SoftmaxGate(3, seed=1), k=2), MLPExperts(3, 4))
    large = MoE(BudgetGate(INNER["softmax"](), k=2), MLPExperts(N, 3))
    model = keras.Model(inputs, large(small(inputs)))
    thresholds = np.linspace(0.5, 0, 9, dtype="float32")
    small.gate.thresholds.assign(thresholds)
    smaller, _ = prune(model, x, LEFT)
    kept = smaller.get_layer(small.name).gate
    np.testing.assert_array_equal(to_numpy(kept.thresholds), thresholds)
