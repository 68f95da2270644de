from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.compress import quantize
from keras_moe.layers import LayerExperts
from keras_moe.layers import MMoE
from keras_moe.layers import record_routing
from recsys import Dataset
from recsys import TrainConfig
from recsys.models.build import build_model
from recsys.models.dead_units import dead_units
from recsys.models.expert_diagnosis import ExpertDiagnosis
from recsys.models.expert_diagnosis import diagnose
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.tasks.chains import labels_of
from recsys.training.resolve_config import resolve_config

# What is recorded inside of a call would not leave a compiled one.
pytestmark = pytest.mark.eager

WEIGHTS = {"watch": 0.75, "rating": 0.25}


def made(tiny: Dataset, **fields: Any) -> tuple[MultiTaskModel, Any, Any]:
    """A model with random weights, with inputs and labels."""
    config = TrainConfig(
        **{
            "data": "synthetic",
            "out": "run",
            "gate": "top-k",
            "num_experts": 4,
            "k": 2,
            "embedding_dim": 2,
            "expert_units": [3, 2],
            "head_units": [],
            "standardize_targets": False,
            **fields,
        }
    )
    model = build_model(resolve_config(config, tiny.schema), tiny)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(0.5 * rng.normal(size=weight.shape))
    rows = tiny.split("validation")
    return model, model.encode(rows), labels_of(rows, model.tasks)


def diagnosed(model: MultiTaskModel, inputs: Any, labels: Any) -> Any:
    return diagnose(model, inputs, labels, WEIGHTS)


def array(tensor: Any) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(tensor), np.float64)


class Reference:
    """An `MMoE` with experts of two layers and a linear head, in NumPy."""

    def __init__(self, model: MultiTaskModel, inputs: Any) -> None:
        x = self.x = array(model.mixture_inputs(inputs, training=False)[0])
        bank = model.mixture.experts
        k1, k2 = (array(kernel) for kernel in bank.kernels)
        b1, b2 = (array(bias) for bias in bank.biases)
        self.k2 = k2
        self.hidden = np.maximum(np.einsum("nd,edh->neh", x, k1) + b1, 0)
        outputs = np.einsum("neh,eho->neo", self.hidden, k2) + b2
        self.outputs = np.maximum(outputs, 0)
        self.weights = {
            task: array(gate(x.astype("float32")))
            for task, gate in model.mixture.gates.items()
        }
        self.heads = {
            task: [array(v) for v in head.weights]
            for task, head in model.heads.items()
        }

    def gradient(self, task: str, labels: np.ndarray) -> np.ndarray:
        """The norm of the gradient of a task's loss by each expert."""
        known = ~np.isnan(labels)
        y = np.where(known, labels, 0.0)
        kernel, bias = self.heads[task]
        weights = self.weights[task]
        logits = np.einsum("ne,neo->no", weights, self.outputs) @ kernel + bias
        if task == "watch":
            errors = 1 / (1 + np.exp(-logits[:, 0])) - y
        else:
            errors = 2 * (logits[:, 0] - y)
        errors = WEIGHTS[task] * errors * known / known.sum()
        d_outputs = (
            errors[:, None, None] * weights[..., None] * kernel[:, 0]
        ) * (self.outputs > 0)
        d_hidden = np.einsum("neo,eho->neh", d_outputs, self.k2)
        d_hidden = d_hidden * (self.hidden > 0)
        parts = [
            np.einsum("nd,neh->edh", self.x, d_hidden),
            d_hidden.sum(axis=0),
            np.einsum("neh,neo->eho", self.hidden, d_outputs),
            d_outputs.sum(axis=0),
        ]
        squares = [(p**2).reshape(len(p), -1).sum(axis=1) for p in parts]
        return np.sqrt(sum(squares))

    def dead_units(self) -> np.ndarray:
        computed = np.any([w != 0 for w in self.weights.values()], axis=0)
        units = np.concatenate([self.hidden, self.outputs], axis=2)
        live = (units * computed[..., None] != 0).any(axis=0)
        shares = 1 - live.mean(axis=1)
        return np.where(computed.any(axis=0), shares, np.nan)


def check(model: MultiTaskModel, inputs: Any, labels: Any) -> ExpertDiagnosis:
    """The diagnosis, compared with NumPy."""
    found = diagnosed(model, inputs, labels)
    reference = Reference(model, inputs)
    (bank,) = found.banks
    assert (bank.level, bank.name) == (1, "experts")
    for task, weights in reference.weights.items():
        load = (weights != 0).mean(axis=0)
        np.testing.assert_allclose(bank.load[task], load)
        np.testing.assert_allclose(
            bank.weight[task], weights.mean(axis=0), rtol=1e-5
        )
        np.testing.assert_allclose(
            bank.gradient[task],
            reference.gradient(task, labels[task]),
            rtol=1e-4,
            atol=1e-7,
        )
    np.testing.assert_allclose(bank.dead_units, reference.dead_units())
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [40, 32])
def test_values_against_numpy(
    tiny: Dataset, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, inputs, labels = made(tiny)
    monkeypatch.setattr(type(model), "rows_per_step", size)
    assert np.isnan(labels["rating"]).any()
    found = check(model, inputs, labels)
    assert not found.banks[0].dead.any()
    assert found.rows == 40
    norms = {
        task: np.sqrt(np.sum(values**2))
        for task, values in found.banks[0].gradient.items()
    }
    shares = found.gradient_shares()
    assert sum(shares.values()) == pytest.approx(1)
    for task, norm in norms.items():
        expected = norm / sum(norms.values())
        assert shares[task] == pytest.approx(expected)


@pytest.mark.traced_once("tensorflow")
def test_planted_troubles(tiny: Dataset) -> None:
    """A gate of one set, a dead expert, dead units, a task without gradient."""
    model, inputs, labels = made(tiny)
    mixture = model.mixture
    watch, rating = mixture.gates["watch"], mixture.gates["rating"]
    watch.kernel.assign(np.zeros(watch.kernel.shape))
    watch.bias.assign([1.0, 2.0, 0.0, -1e4])
    rating.bias.assign([0.0, 0.0, 0.0, -1e4])
    # Two of the five units of the first expert.
    bias = array(mixture.experts.biases[0])
    bias[0, :2] = -1e4
    mixture.experts.biases[0].assign(bias)
    model.heads["watch"].weights[0].assign(
        np.zeros(model.heads["watch"].weights[0].shape)
    )
    found = check(model, inputs, labels)
    (bank,) = found.banks
    assert bank.dead.tolist() == [False, False, False, True]
    assert np.isnan(bank.dead_units[3])
    assert bank.dead_units[0] >= 2 / 5
    assert bank.load["watch"].tolist() == [1, 1, 0, 0]
    assert found.use["watch"][0].most_frequent_set == 1
    assert found.use["watch"][0].mutual_information == pytest.approx(
        0, abs=1e-6
    )
    assert found.use["rating"][0].most_frequent_set < 1
    assert found.gradient_shares() == {"watch": 0, "rating": 1}
    assert not found.static


def test_a_task_without_labels_has_no_gradient(tiny: Dataset) -> None:
    model, inputs, labels = made(tiny)
    labels["rating"] = np.full(40, np.nan)
    found = diagnosed(model, inputs, labels)
    assert found.gradient_shares() == {"watch": 1, "rating": 0}


@pytest.mark.once("torch")
def test_levels_and_their_banks(tiny: Dataset) -> None:
    model, inputs, labels = made(
        tiny, architecture="ple", task_experts=3, num_experts=2
    )
    found = diagnosed(model, inputs, labels)
    names = ["shared", "watch", "rating"]
    assert [(bank.level, bank.name) for bank in found.banks] == [
        (level, name) for level in (1, 2) for name in names
    ]
    outputs = [set(bank.load) for bank in found.banks]
    both = {"watch", "rating"}
    assert outputs == [
        both | {"shared"},
        {"watch", "shared"},
        {"rating", "shared"},
        both,
        {"watch"},
        {"rating"},
    ]
    assert [len(bank.dead_units) for bank in found.banks] == [2, 3, 3] * 2
    # Two of each output's experts.
    for level, output, count in (
        (1, "shared", 2),
        (1, "watch", 2),
        (2, "rating", 2),
    ):
        total = sum(
            bank.load[output].sum()
            for bank in found.banks
            if bank.level == level and output in bank.load
        )
        assert total == pytest.approx(count)
    own = found.banks[4]
    assert own.gradient["watch"].any()
    assert not own.gradient["rating"].any()
    # Of the first level, a task's experts reach the others.
    assert found.banks[1].gradient["rating"].any()
    assert {task: len(use) for task, use in found.use.items()} == {
        **{"watch": 2, "rating": 2},
        "shared": 1,
    }


@pytest.mark.once("torch")
def test_native_experts_have_weight_in_each_row(tiny: Dataset) -> None:
    model, inputs, labels = made(
        tiny, architecture="adatt", task_experts=2, num_experts=2, num_levels=1
    )
    banks = {bank.name: bank for bank in diagnosed(model, inputs, labels).banks}
    (layer,) = model.mixture.levels
    for task in ("watch", "rating"):
        (native,) = layer.self_gates[task].trainable_weights
        assert (banks[task].load[task] == 1).all()
        assert not banks[task].dead.any()
        with record_routing() as records:
            model(inputs)
        gated = array(records[0].weights[task])
        first = 2 + 2 * ["watch", "rating"].index(task)
        np.testing.assert_allclose(
            banks[task].weight[task],
            gated[:, first : first + 2].mean(axis=0) + array(native),
            rtol=1e-5,
        )
    # By the other task's gate alone.
    assert banks["watch"].load["rating"].max() < 1


@pytest.mark.traced_once("tensorflow")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", ["act", "one"])
def test_a_hierarchy_has_levels_of_groups_and_of_tasks(
    tiny: Dataset, group: str
) -> None:
    model, inputs, labels = made(
        tiny,
        architecture="home",
        task_experts=2,
        num_experts=2,
        task_groups={"watch": group, "rating": "one"},
    )
    found = diagnosed(model, inputs, labels)
    groups = list(dict.fromkeys([group, "one"]))
    assert [(bank.level, bank.name) for bank in found.banks] == [
        *((1, name) for name in ("shared", *groups)),
        *((2, name) for name in ("shared", *groups, "watch", "rating")),
    ]
    banks = {(bank.level, bank.name): bank for bank in found.banks}
    both = {"watch", "rating"} if group == "one" else {"watch"}
    assert set(banks[1, group].load) == {*both, "shared"}
    assert set(banks[2, "watch"].load) == {"watch"}
    with record_routing() as records:
        model(inputs)
    layers = model.mixture.groups, model.mixture.tasks
    for level, bank in ((1, "one"), (2, "rating")):
        record = records[level - 1]
        gate = layers[level - 1].self_gates[bank]
        own = gate(record.gate_inputs["rating"])
        gated = array(record.weights["rating"])[:, -2:]
        np.testing.assert_allclose(
            banks[level, bank].weight["rating"],
            (gated + array(own)).mean(axis=0),
            rtol=1e-5,
        )
    assert banks[2, "watch"].gradient["watch"].any()
    assert not banks[2, "watch"].gradient["rating"].any()
    # Another group's experts of the first level are in the shared stream.
    assert banks[1, group].gradient["rating"].any()
    assert {task: len(use) for task, use in found.use.items()} == {
        **{"watch": 2, "rating": 2},
        "shared": 1,
    }


@pytest.mark.once("torch")
def test_one_gate_and_shared_experts(tiny: Dataset) -> None:
    model, inputs, labels = made(tiny, architecture="moe", shared_experts=2)
    found = diagnosed(model, inputs, labels)
    routed, shared = found.banks
    assert routed.load["watch"].tolist() == routed.load["rating"].tolist()
    assert shared.load["watch"].tolist() == [1, 1]
    assert shared.gradient["watch"].all()


@pytest.mark.once("torch")
def test_experts_of_integers_have_gradients_of_their_biases(
    tiny: Dataset,
) -> None:
    model, inputs, labels = made(tiny)
    before = diagnosed(model, inputs, labels).banks[0]
    smaller, _ = quantize(model, inputs)
    after = diagnosed(smaller, inputs, labels).banks[0]
    np.testing.assert_array_equal(after.load["watch"], before.load["watch"])
    assert (after.gradient["rating"] <= before.gradient["rating"]).all()


@pytest.mark.once("torch")
def test_experts_that_are_layers_are_measured_alike(tiny: Dataset) -> None:
    model, inputs, labels = made(tiny)
    assert isinstance(model, Ranker)
    bank = model.mixture.experts
    layers = [
        keras.Sequential([keras.layers.Dense(u, "relu") for u in bank.units])
        for _ in range(4)
    ]
    mixture = MMoE(model.mixture.gates, layers)
    mixture.build((None, model.mixture_inputs(inputs, False)[0].shape[1]))
    for expert, layer in enumerate(layers):
        for number, dense in enumerate(layer.layers):
            kernel = array(bank.kernels[number])[expert]
            dense.set_weights([kernel, array(bank.biases[number])[expert]])
    expected = diagnosed(model, inputs, labels).banks[0]
    found = diagnosed(model.with_mixture(mixture), inputs, labels).banks[0]
    assert found.load["watch"].tolist() == expected.load["watch"].tolist()
    np.testing.assert_array_equal(found.dead_units, expected.dead_units)
    for task, norms in expected.gradient.items():
        np.testing.assert_allclose(found.gradient[task], norms, rtol=1e-4)


@pytest.mark.once("torch")
def test_channels_of_convolutions_are_units() -> None:
    """One that is zero everywhere in all images is dead."""
    layer = keras.layers.Conv2D(3, 2, activation="relu")
    layer.build((None, 4, 4, 1))
    kernel = np.abs(array(layer.weights[0]))
    layer.set_weights([kernel, np.array([0.0, -1e4, 0.0])])
    images = np.zeros((5, 4, 4, 1), "float32")
    images[3, 2, 2] = 1.0
    computed = np.ones((5, 1), bool)
    shares = dead_units(LayerExperts([layer]), images, computed, size=2)
    assert shares == pytest.approx([1 / 3])
    computed[3] = False
    shares = dead_units(LayerExperts([layer]), images, computed, size=2)
    assert shares == pytest.approx([1])


@pytest.mark.once("torch")
def test_without_experts_there_is_nothing(tiny: Dataset) -> None:
    found = diagnosed(*made(tiny, architecture="shared-bottom"))
    assert not found.banks
    assert not found.use
    assert found.gradient_shares() == {}


@pytest.mark.once("torch")
def test_the_model_is_left_as_it_was(tiny: Dataset) -> None:
    model, inputs, labels = made(tiny)
    before = list(model.mixture.experts.activations)
    diagnosed(model, inputs, labels)
    assert model.mixture.experts.activations == before
