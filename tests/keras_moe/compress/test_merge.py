import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.compress import merge
from keras_moe.compress.alignment import Perceptron
from keras_moe.compress.merge import merged_experts
from keras_moe.layers import BudgetGate
from keras_moe.layers import GroupedGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import TopKGate
from tests.keras_moe.compress.models import KINDS
from tests.keras_moe.compress.models import NUM_FEATURES
from tests.keras_moe.compress.models import N
from tests.keras_moe.compress.models import make_inputs
from tests.keras_moe.compress.models import mixture_of
from tests.keras_moe.compress.models import outputs_of
from tests.keras_moe.compress.models import sequential
from tests.keras_moe.layers.gates.registry import GATES
from tests.keras_moe.layers.gates.registry import NUM_EXPERTS
from tests.keras_moe.layers.gates.registry import make_inputs as gate_inputs

pytestmark = pytest.mark.traced_once("tensorflow")


def linear(*entries: float) -> Perceptron:
    return Perceptron([np.array([[*entries]])], [np.zeros(len(entries))])


def test_groups_and_means_by_hand() -> None:
    experts = [linear(x, 0.0) for x in (0.0, 10.0, 1.0, 8.0, 3.0)]
    use = np.array([3.0, 4.0, 1.0, 0.0, 1.0])
    groups, merged = merged_experts(experts, use, 2)
    assert groups == [[0, 2, 4], [1, 3]]
    kernels = [expert.kernels[0].tolist() for expert in merged]
    # (3 · 0 + 1 · 1 + 1 · 3) / 5, and 10: expert 3 is not used.
    assert kernels == [[[0.8, 0.0]], [[10.0, 0.0]]]


def test_unused_experts_count_alike() -> None:
    groups, merged = merged_experts(
        [linear(2.0), linear(9.0), linear(4.0)], np.zeros(3), 2
    )
    assert groups == [[0, 2], [1]]
    assert merged[0].kernels[0].item() == 3.0


def permuted_copies(model: keras.Model) -> None:
    """Lets experts 2 to 5 be copies of 0 and 1, with units in other orders."""
    bank = mixture_of(model).experts
    rng = np.random.default_rng(1)
    kernels = [to_numpy(kernel).copy() for kernel in bank.kernels]
    biases = [to_numpy(bias).copy() for bias in bank.biases]
    for expert in range(2, N):
        order = rng.permutation(bank.units[0])
        kernels[0][expert] = kernels[0][expert % 2][:, order]
        kernels[1][expert] = kernels[1][expert % 2][order]
        biases[0][expert] = biases[0][expert % 2][order]
        biases[1][expert] = biases[1][expert % 2]
    for weight, values in zip(
        [*bank.kernels, *bank.biases], [*kernels, *biases], strict=True
    ):
        weight.assign(values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_copies_are_merged_without_a_loss(kind: str) -> None:
    model, x = KINDS[kind](), make_inputs()
    permuted_copies(model)
    mixture = mixture_of(model)
    gates = (
        [mixture.gate] if isinstance(mixture, MoE) else mixture.gates.values()
    )
    for gate in gates:  # So that one expert of each kind leads a group.
        gate.bias.assign(np.array([2.0, 2.0, 0, 0, 0, 0], "float32"))
    before = outputs_of(model, x)
    merged, report = merge(model, x, 2)
    mixture = mixture_of(merged)
    assert mixture.experts.num_experts == 2
    assert report.experts == {"mixture": (N, 2)}
    assert report.max_difference < 1e-5
    for a, b in zip(outputs_of(merged, x), before, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_the_gate_adds_up_the_members() -> None:
    model, x = sequential(), make_inputs()
    weights = to_numpy(mixture_of(model).gate(x))
    merged, report = merge(model, x, 3)
    gate = mixture_of(merged).gate
    assert sorted(i for group in gate.groups for i in group) == list(range(N))
    leaders = [group[0] for group in gate.groups]
    assert leaders == sorted(np.argsort(-weights.sum(axis=0))[:3])
    np.testing.assert_allclose(
        to_numpy(gate(x)),
        np.stack([weights[:, group].sum(axis=1) for group in gate.groups], 1),
        rtol=1e-5,
        atol=1e-6,
    )
    assert report.max_difference > 0


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", GATES)
def test_experts_of_any_gate_are_merged(name: str, rng) -> None:
    gate = GATES[name](seed=3)
    x = gate_inputs(gate, rng, (30,))
    inputs = [keras.Input((2,)), keras.Input(x.shape[1:], dtype=str(x.dtype))]
    mixture = MoE(gate, MLPExperts(NUM_EXPERTS, [4, 2], use_bias=False))
    model = keras.Model(inputs, mixture(inputs[0], gate_inputs=inputs[1]))
    merged, _ = merge(model, [np.ones((30, 2), "float32"), x], 2)
    new = mixture_of(merged).gate
    stays = isinstance(gate, BudgetGate)
    assert isinstance(new, BudgetGate if stays else GroupedGate)
    np.testing.assert_allclose(
        to_numpy(new(x)).sum(axis=-1),
        to_numpy(gate(x)).sum(axis=-1),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {
                "model": keras.Sequential(
                    [
                        keras.Input((NUM_FEATURES,)),
                        MoE(
                            TopKGate(4, k=1),
                            [keras.layers.Dense(2) for _ in range(4)],
                        ),
                    ]
                )
            },
            TypeError,
            "`model` must have mixtures of `MLPExperts`",
        ),
        ({"model": None}, TypeError, "`model` must be a Keras model"),
        ({"num_experts": 1}, ValueError, "`num_experts` must be at least 2"),
        (
            {"num_experts": N},
            ValueError,
            "`num_experts` must be below the number of experts",
        ),
        ({"data": np.zeros((0, 4))}, ValueError, "`data` must hold at least"),
    ],
)
def test_wrong_arguments(change, error, message) -> None:
    arguments = {"data": make_inputs(), "num_experts": 3, **change}
    model = arguments.pop("model", None) if "model" in change else sequential()
    with pytest.raises(error, match=message):
        merge(model, **arguments)
