import keras
import numpy as np
import pytest
from keras import ops

from keras_moe.callbacks import RoutingModel
from keras_moe.callbacks import measure_routing
from keras_moe.layers import COMETGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import TopKGate
from keras_moe.layers.routing_record import record

pytestmark = pytest.mark.traced_once("tensorflow")

WATCH = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]], "float32")
RATING = np.array([[1.0, 0.0], [1.0, 0.0], [0.8, 0.0]], "float32")


class Echo(keras.layers.Layer):
    """Claims to have routed by the weights that it is given."""

    def call(self, inputs):
        gates = dict.fromkeys(inputs, SoftmaxGate(2))
        record(self, inputs, dict.fromkeys(inputs), gates, inputs)
        return inputs


def test_hand_computed_over_uneven_batches():
    batches = [
        {"watch": ops.array(WATCH[rows]), "rating": ops.array(RATING[rows])}
        for rows in (slice(0, 1), slice(1, 3))
    ]
    statistics = measure_routing(RoutingModel(Echo()), batches)
    assert set(statistics) == {"watch", "rating"}
    watch, rating = statistics["watch"], statistics["rating"]
    np.testing.assert_allclose(watch.pop("load_per_expert"), [2 / 3, 2 / 3])
    np.testing.assert_allclose(rating.pop("load_per_expert"), [1, 0])
    np.testing.assert_allclose(watch.pop("weight_per_expert"), [0.5, 0.5])
    np.testing.assert_allclose(
        rating.pop("weight_per_expert"), [2.8 / 3, 0], rtol=1e-6
    )
    assert watch == pytest.approx(
        {
            "experts_per_example": 4 / 3,
            "load_imbalance": 1,
            "weight_entropy": np.log(2) / 3,
            "simplex_violation": 0,
        }
    )
    assert rating == pytest.approx(
        {
            "experts_per_example": 1,
            "load_imbalance": 2,
            "weight_entropy": 0,
            "simplex_violation": 0.2,
        },
        abs=1e-6,
    )


def test_tokens_count_like_examples():
    tokens = ops.array(np.stack([WATCH, RATING]))  # (2, 3, 2)
    statistics = measure_routing(RoutingModel(Echo()), [{"moe": tokens}])["moe"]
    np.testing.assert_allclose(statistics["load_per_expert"], [5 / 6, 2 / 6])


@pytest.mark.parametrize("wrap", [lambda gate: gate, PermutedGate])
def test_share_of_binary_rows_by_hand(wrap):
    """Bits are x and 4x - 2, certain where they are not within (-0.5, 0.5)."""
    gate = DSelectKGate(4, k=1, gamma=1.0)
    mixture = MoE(wrap(gate), MLPExperts(4, 2), name="moe")
    mixture.build((None, 1))
    gate.selector_kernel.assign(np.array([[[1.0, 4.0]]]))
    gate.selector_bias.assign(np.array([[0.0, -2.0]]))
    routing_model = RoutingModel(mixture)

    def share(*x):
        batches = [np.array(x, "float32")[:, None]]
        return measure_routing(routing_model, batches)["moe"]["binary_share"]

    assert share(-0.6, 0.7, 3.0) == 1
    assert share(-0.6, 0.6, 0.3, 3.0) == 0.5  # 0.4 and 0.3 are not certain.


def test_share_of_a_static_gate_is_all_or_nothing():
    gates = {
        "watch": DSelectKGate(4, k=2, static=True),
        "rating": TopKGate(4, k=2),
    }
    mixture = MMoE(gates, MLPExperts(4, 2))
    mixture.build((None, 1))
    statistics = measure_routing(RoutingModel(mixture), [np.ones((3, 1))])
    assert statistics["watch"]["binary_share"] == 0
    assert "binary_share" not in statistics["rating"]
    gates["watch"].selector_logits.assign(np.full((2, 2), 0.5))
    statistics = measure_routing(RoutingModel(mixture), [np.ones((3, 1))])
    assert statistics["watch"]["binary_share"] == 1


def test_share_leaves_padding_out_and_takes_half_precision():
    gate = COMETGate(2, k=1, use_bias=False)
    mixture = MoE(gate, MLPExperts(2, 2), dtype="mixed_float16", name="moe")
    x = np.array([[[0.6], [0.1], [0.6]], [[-0.6], [0.2], [0.1]]], "float32")
    x[1, 1:] = 0.0  # Masked, and far from certain.
    model = keras.Sequential([keras.layers.Masking(), mixture])
    model.build((None, 3, 1))
    gate.split_kernel.assign(np.ones((1, 1, 1)))
    statistics = measure_routing(RoutingModel(model), [x])
    assert statistics["moe"]["binary_share"] == 0.75


class Chain(keras.Model):
    """Calls its layers on the same inputs, one after the other."""

    def __init__(self, layers):
        super().__init__()
        self.chain = layers

    def call(self, inputs):
        return [layer(inputs) for layer in self.chain]


def gates():
    return {"watch": SoftmaxGate(3), "rating": SoftmaxGate(3)}


@pytest.mark.once("torch")
def test_tasks_carry_the_mixtures_name_where_there_are_several():
    model = Chain(
        [
            MMoE(gates(), MLPExperts(3, 2), name="low"),
            MMoE(gates(), MLPExperts(3, 2), name="high"),
            MoE(SoftmaxGate(2), MLPExperts(2, 2), name="tower"),
        ]
    )
    statistics = measure_routing(
        RoutingModel(model), [np.ones((2, 4), "float32")]
    )
    assert list(statistics) == [
        "low_watch",
        "low_rating",
        "high_watch",
        "high_rating",
        "tower",
    ]
    assert len(statistics["tower"]["load_per_expert"]) == 2


@pytest.mark.once("torch")
def test_mixtures_of_one_name_do_not_share_statistics():
    model = Chain(
        [
            MoE(SoftmaxGate(2), MLPExperts(2, 2), name="moe"),
            MoE(SoftmaxGate(3), MLPExperts(3, 2), name="moe"),
        ]
    )
    statistics = measure_routing(
        RoutingModel(model), [np.ones((2, 4), "float32")]
    )
    sizes = {
        task: len(values["load_per_expert"])
        for task, values in statistics.items()
    }
    assert sizes == {"moe": 2, "moe_1": 3}


def test_a_mixture_called_twice_counts_both_calls():
    echo = Echo(name="moe")

    class Twice(keras.Model):
        def call(self, inputs):
            return [echo({"moe": inputs[0]}), echo({"moe": inputs[1]})]

    batch = [ops.array(WATCH), ops.array(RATING)]
    statistics = measure_routing(RoutingModel(Twice()), [batch])
    assert list(statistics) == ["moe"]
    np.testing.assert_allclose(
        statistics["moe"]["load_per_expert"], [5 / 6, 2 / 6]
    )


@pytest.mark.once("torch")
def test_a_model_without_a_mixture_is_refused():
    model = keras.Sequential([keras.layers.Dense(1)], name="plain")
    with pytest.raises(
        ValueError, match=r"The model must call a mixture.*Received: .*plain"
    ):
        measure_routing(RoutingModel(model), [np.ones((2, 4))])


class Counting(Chain):
    calls = 0

    def call(self, inputs):
        self.calls += 1
        return super().call(inputs)


@pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="PyTorch runs eagerly."
)
def test_a_model_is_compiled_once():
    model = Counting([MoE(SoftmaxGate(2), MLPExperts(2, 2))])
    routing_model = RoutingModel(model)
    batch = np.ones((2, 4), "float32")
    measure_routing(routing_model, [batch, batch])
    calls = model.calls
    measure_routing(routing_model, [batch, batch])
    assert model.calls == calls


def test_a_model_that_runs_eagerly_is_measured_eagerly():
    model = Counting([MoE(SoftmaxGate(2), MLPExperts(2, 2))])
    model.run_eagerly = True
    model.jit_compile = False
    routing_model = RoutingModel(model)
    batch = np.ones((2, 4), "float32")
    measure_routing(routing_model, [batch])
    calls = model.calls
    measure_routing(routing_model, [batch, batch])
    assert model.calls == calls + 2
