from pathlib import Path

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.compress import prune
from keras_moe.compress.examples import Examples
from keras_moe.compress.fewer_experts import expert_use
from keras_moe.layers import BudgetGate
from keras_moe.layers import GroupedGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from tests.keras_moe.compress.models import KINDS
from tests.keras_moe.compress.models import NUM_FEATURES
from tests.keras_moe.compress.models import N
from tests.keras_moe.compress.models import make_inputs
from tests.keras_moe.compress.models import make_mixture
from tests.keras_moe.compress.models import mixture_of
from tests.keras_moe.compress.models import outputs_of
from tests.keras_moe.compress.models import sequential
from tests.keras_moe.layers.gates.registry import GATES
from tests.keras_moe.layers.gates.registry import NUM_EXPERTS
from tests.keras_moe.layers.gates.registry import make_inputs as gate_inputs
from tests.keras_moe.layers.given_gate import GivenGate

pytestmark = pytest.mark.traced_once("tensorflow")


def of_weights(gate=None):
    """A model whose second input is the weights, and scalar experts."""
    gate = gate or GivenGate(4)
    experts = MLPExperts(4, 1, activation=None, use_bias=False)
    inputs = [keras.Input((1,)), keras.Input((gate.num_experts,))]
    mixture = MoE(gate, experts, name="mixture")
    model = keras.Model(inputs, mixture(inputs[0], gate_inputs=inputs[1]))
    experts.kernels[0].assign(np.reshape([1.0, 10.0, 100.0, 1000.0], (4, 1, 1)))
    return model


def test_the_heaviest_experts_stay():
    weights = [[0.75, 0, 0.25, 0], [0, 0.5, 0, 0.5], [0, 0, 0.25, 0.75]]
    data = [np.ones((3, 1), "float32"), np.array(weights, "float32")]
    model = of_weights()
    pruned, report = prune(model, data, 2)
    # Experts 0 (0.75) and 3 (1.25) are left; 1 has 0.5, 2 has 0.5.
    kernel = to_numpy(mixture_of(pruned).experts.kernels[0])
    np.testing.assert_array_equal(kernel.ravel(), [1.0, 1000.0])
    np.testing.assert_allclose(
        outputs_of(pruned, data)[0].ravel(), [1.0, 1000.0, 1000.0]
    )
    # Before: 25.75, 505 and 775.
    assert report.max_difference == pytest.approx(495)
    assert report.mean_difference == pytest.approx((24.75 + 495 + 225) / 3)
    assert report.experts == {"mixture": (4, 2)}


@pytest.mark.once("torch")
def test_a_row_without_experts_goes_to_the_most_important():
    weights = np.eye(4, dtype="float32")[[0, 2, 2, 3, 3, 3, 1]]
    data = [np.ones((7, 1), "float32"), weights]
    pruned, _ = prune(of_weights(), data, 2)
    assert mixture_of(pruned).gate.fallback == 1
    np.testing.assert_allclose(
        outputs_of(pruned, data)[0].ravel(),
        [1000, 100, 100, 1000, 1000, 1000, 1000],
    )


def test_rows_with_nan_have_no_say():
    weights = np.full((5, 4), [0.0, 0.0, 0.5, 0.5], "float32")
    weights[0] = [0.5, 0.5, np.nan, np.nan]
    data = [np.ones((5, 1), "float32"), weights]
    pruned, report = prune(of_weights(), data, 2)
    kernel = to_numpy(mixture_of(pruned).experts.kernels[0])
    np.testing.assert_array_equal(kernel.ravel(), [100.0, 1000.0])
    assert report.max_difference == report.mean_difference == 0


@pytest.mark.once("torch")
def test_importance_by_outputs_differs() -> None:
    weights = [[0.6, 0, 0.4, 0], [0.6, 0.1, 0, 0.3], [0.5, 0, 0.5, 0]]
    x = np.array([[1], [-2], [4]], "float32")
    data = [x, np.array(weights, "float32")]
    # By weight 1.7, 0.1, 0.9, 0.3. Experts are 1, 10, 100 and 1,000 times |x|:
    # 3.8, 2, 240, 600.
    by_weight, _ = prune(of_weights(), data, 2)
    by_output, _ = prune(of_weights(), data, 2, importance="output")
    for pruned, kept in ((by_weight, [1, 100]), (by_output, [100, 1000])):
        kernel = to_numpy(mixture_of(pruned).experts.kernels[0])
        np.testing.assert_array_equal(kernel.ravel(), kept)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["subclassed", "of-tasks"])
def test_importance_by_outputs_is_that_of_numpy(kind: str) -> None:
    model, x = KINDS[kind](), make_inputs()
    mixture = mixture_of(model)
    first, second = (to_numpy(kernel) for kernel in mixture.experts.kernels)
    bias, last = (to_numpy(bias) for bias in mixture.experts.biases)
    hidden = np.maximum(np.einsum("nd,edh->neh", x, first) + bias, 0)
    outputs = np.maximum(np.einsum("neh,eho->neo", hidden, second) + last, 0)
    gates = getattr(mixture, "gates", None) or {"": mixture.gate}
    weights = sum(to_numpy(gate(x)) for gate in gates.values())
    expected = (weights * np.sqrt((outputs**2).sum(axis=-1))).sum(axis=0)
    use = expert_use(model, Examples(x, 16), "output")
    np.testing.assert_allclose(use[mixture], expected, rtol=1e-4)


def test_rows_with_nan_have_no_say_by_outputs() -> None:
    x = np.array([[1.0], [np.nan]], "float32")
    data = [x, np.full((2, 4), [0.1, 0.1, 0.4, 0.4], "float32")]
    (use,) = expert_use(of_weights(), Examples(data, 2), "output").values()
    np.testing.assert_allclose(use, [0.1, 1, 40, 400], rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_any_kind_of_model_is_pruned(kind: str, tmp_path: Path) -> None:
    model, x = KINDS[kind](), make_inputs()
    before = outputs_of(model, x)
    pruned, report = prune(model, x, 3, batch_size=16)
    assert type(pruned) is type(model)
    assert pruned.name == model.name
    after = outputs_of(pruned, x)
    differences = np.concatenate(
        [np.abs(a - b).ravel() for a, b in zip(after, before, strict=True)]
    )
    assert report.rows == len(x)
    assert report.max_difference == pytest.approx(differences.max(), rel=1e-4)
    assert report.mean_difference == pytest.approx(differences.mean(), rel=1e-4)
    mixture = mixture_of(pruned)
    assert mixture.experts.num_experts == 3
    assert report.experts == {"mixture": (N, 3)}
    count = 4 * pruned.count_params()
    assert (report.bytes_before, report.bytes_after) == (
        4 * model.count_params(),
        count,
    )
    # The original is as it was, and shares nothing.
    for weight in pruned.weights:
        weight.assign(np.zeros(weight.shape))
    for a, b in zip(outputs_of(model, x), before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_result_is_saved_and_trained(tmp_path: Path) -> None:
    model, x = KINDS["of-tasks"](), make_inputs()
    model.compile(
        "adam", {"a": "mse", "b": "mae"}, loss_weights={"a": 2.0, "b": 1.0}
    )
    y = {task: np.ones((len(x), 3), "float32") for task in "ab"}
    pruned, report = prune(model, (x, y), 3)
    assert report.loss_before == pytest.approx(
        model.evaluate(x, y, verbose=0, return_dict=True)["loss"], rel=1e-5
    )
    assert report.loss_after == pytest.approx(
        pruned.evaluate(x, y, verbose=0, return_dict=True)["loss"], rel=1e-5
    )
    pruned.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras")
    for a, b in zip(outputs_of(pruned, x), outputs_of(loaded, x), strict=True):
        np.testing.assert_array_equal(a, b)
    pruned.fit(x, y, epochs=3, verbose=0)
    after = pruned.evaluate(x, y, verbose=0, return_dict=True)["loss"]
    assert after < report.loss_after


def test_top_k_selects_among_the_kept_scores() -> None:
    model, x = sequential(), make_inputs()
    gate = mixture_of(model).gate
    logits = x @ to_numpy(gate.kernel) + to_numpy(gate.bias)
    use = to_numpy(gate(x)).sum(axis=0)
    kept = np.sort(np.argsort(-use)[:3])
    pruned, _ = prune(model, x, 3)
    new = mixture_of(pruned).gate
    assert type(new) is TopKGate
    scores = np.exp(logits[:, kept])
    scores[np.arange(len(x)), scores.argmin(axis=1)] = 0
    np.testing.assert_allclose(
        to_numpy(new(x)),
        scores / scores.sum(axis=1, keepdims=True),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GATES)
def test_every_gate_is_cut(name: str, rng: np.random.Generator) -> None:
    gate = GATES[name](seed=3)
    x = gate_inputs(gate, rng, (30,))
    inputs = [keras.Input((2,)), keras.Input(x.shape[1:], dtype=str(x.dtype))]
    mixture = MoE(gate, MLPExperts(NUM_EXPERTS, 2, seed=1))
    model = keras.Model(inputs, mixture(inputs[0], gate_inputs=inputs[1]))
    data = [rng.normal(size=(30, 2)).astype("float32"), x]
    use = np.broadcast_to(to_numpy(gate(x)), (30, NUM_EXPERTS)).sum(axis=0)
    kept = np.sort(np.argsort(-use, kind="stable")[:3])
    pruned, _ = prune(model, data, 3)
    cut = mixture_of(pruned)
    np.testing.assert_array_equal(
        to_numpy(cut.experts.kernels[0]),
        to_numpy(mixture.experts.kernels[0])[kept],
    )
    stays = gate.separable or isinstance(gate, BudgetGate)
    assert isinstance(cut.gate, type(gate) if stays else GroupedGate)
    assert cut.gate.static == gate.static
    if gate.separable and hasattr(gate, "compute_logits"):
        scores = to_numpy(gate.compute_logits(x))[..., kept]
        np.testing.assert_allclose(
            to_numpy(cut.gate.compute_logits(x)), scores, rtol=1e-5, atol=1e-6
        )
    weights = to_numpy(cut.gate(x))
    assert weights.shape[-1] == 3
    if gate.on_simplex:
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)


@pytest.mark.once("torch")
def test_experts_without_weight_are_not_missed() -> None:
    model, x = sequential(), make_inputs()
    bias = np.array([-100, 0, 0, -100, 0, -100], "float32")
    mixture_of(model).gate.bias.assign(bias)
    assert prune(model, x, 3)[1].max_difference < 1e-6


@pytest.mark.once("torch")
def test_a_list_of_layers_is_pruned() -> None:
    experts = [keras.layers.Dense(2) for _ in range(4)]
    mixture = MoE(SwitchGate(4), experts, name="mixture")
    model = keras.Sequential([keras.Input((NUM_FEATURES,)), mixture])
    pruned, _ = prune(model, make_inputs(), 2)
    assert len(mixture_of(pruned).experts.experts) == 2


@pytest.mark.once("torch")
def test_tasks_that_share_a_gate_still_do() -> None:
    gate = TopKGate(4, k=2)
    inputs = keras.Input((NUM_FEATURES,))
    mixture = MMoE([gate, gate], MLPExperts(4, 2))
    model = keras.Model(inputs, mixture(inputs))
    pruned, _ = prune(model, make_inputs(), 2)
    first, second = mixture_of(pruned).gates
    assert first is second


@pytest.mark.once("torch")
def test_smaller_mixtures_are_left_alone() -> None:
    inputs = keras.Input((NUM_FEATURES,))
    small = MoE(TopKGate(2, k=1), MLPExperts(2, NUM_FEATURES), name="small")
    model = keras.Model(inputs, make_mixture()(small(inputs)))
    pruned, report = prune(model, make_inputs(), 3)
    assert report.experts == {"mixture": (N, 3)}
    np.testing.assert_array_equal(
        to_numpy(pruned.get_layer("small").experts.kernels[0]),
        to_numpy(small.experts.kernels[0]),
    )


@keras.saving.register_keras_serializable(package="tests")
class Unsavable(keras.Model):
    """Makes its mixture itself, whatever it becomes later."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.mixture = make_mixture()

    def call(self, inputs):
        return self.mixture(inputs)


class Unknown(Unsavable):
    """Not registered."""


def built(model):
    model(make_inputs())
    return model


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": 3}, TypeError, "`model` must be a Keras model. Received"),
        (
            {"model": keras.Sequential([keras.layers.Dense(2)])},
            ValueError,
            "`model` must be built",
        ),
        (
            {"model": lambda: built(Unsavable())},
            ValueError,
            "The configuration of `model` must hold its mixtures",
        ),
        (
            {"model": lambda: built(Unknown())},
            ValueError,
            "`model` must be a model that Keras can save and load",
        ),
        (
            {"model": lambda: built(keras.Sequential([keras.layers.Dense(2)]))},
            ValueError,
            "`model` must call a `MoE` or an `MMoE`",
        ),
        ({"num_experts": 1}, ValueError, "`num_experts` must be at least 2"),
        ({"num_experts": 2.0}, TypeError, "`num_experts` must be an integer"),
        (
            {"num_experts": N},
            ValueError,
            "`num_experts` must be below the number of experts of some mixture",
        ),
        ({"data": np.zeros((0, 4))}, ValueError, "`data` must hold at least"),
        ({"data": ["x"]}, TypeError, "`data` must be an array"),
        (
            {"data": (make_inputs(), np.zeros(3))},
            ValueError,
            "same number of rows",
        ),
        (
            {"data": (make_inputs(),) * 4},
            ValueError,
            "`data` as a tuple must be",
        ),
        ({"importance": "size"}, ValueError, "`importance` must be one of"),
        ({"batch_size": 0}, ValueError, "`batch_size` must be at least 1"),
    ],
)
def test_wrong_arguments(change, error, message) -> None:
    model = change.get("model", sequential)
    if callable(model) and not isinstance(model, keras.Model):
        model = model()
    arguments = {
        "data": make_inputs(),
        "num_experts": 3,
        **change,
        "model": model,
    }
    with pytest.raises(error, match=message):
        prune(**arguments)
