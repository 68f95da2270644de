"""Nothing that a mixture computes stays on the processor, on PyTorch."""

import keras
import numpy as np
import pytest

from keras_moe.callbacks.measure_routing import measure_routing
from keras_moe.callbacks.routing_model import RoutingModel
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.ops import masked_softmax
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import GATES
from tests.keras_moe.layers.gates.registry import NUM_EXPERTS

pytestmark = pytest.mark.once("torch")


CASES = [(name, "dense") for name in GATES] + [
    (name, "sparse")
    for name, make in GATES.items()
    if make().experts_per_row is not None
]


@pytest.mark.parametrize(("name", "execution"), CASES)
def test_training_and_measuring_name_the_device(
    name: str, execution: str, rng: np.random.Generator
) -> None:
    from tests.named_devices import NamedDevices

    gate = GATES[name]()
    mixture = MoE(gate, MLPExperts(NUM_EXPERTS, [4, 3]), execution)
    width = registry.NUM_FEATURES
    features = keras.Input((width,))
    ids = keras.Input((), dtype="int32")
    routed = {0: ids, 1: features}[gate.feature_rank]
    model = keras.Model([features, ids], mixture(features, routed))
    model.compile("adam", "mse")
    batch = [
        rng.normal(size=(6, width)).astype("float32"),
        rng.integers(1000, size=6).astype("int32"),
    ]
    labels = rng.normal(size=(6, 3)).astype("float32")
    with NamedDevices():
        model.train_on_batch(batch, labels)
        model.predict_on_batch(batch)
        measure_routing(RoutingModel(model), [batch])


def test_a_tensor_without_a_device_is_found() -> None:
    from tests.named_devices import NamedDevices

    logits = np.zeros((2, 3), "float32")
    with NamedDevices():
        masked_softmax(logits, logits == 0)
        with pytest.raises(AssertionError, match=r"torch\.full without"):
            keras.ops.max(logits, initial=0.0)
