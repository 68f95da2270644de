"""Models whose mixtures have shared experts, and experts that were split."""

import keras
import numpy as np
import pytest

from keras_moe.compress import merge
from keras_moe.compress import prune
from keras_moe.compress import quantize
from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from keras_moe.layers import QuantizedExperts
from keras_moe.layers import TopKGate
from tests.keras_moe.compress.models import NUM_FEATURES
from tests.keras_moe.compress.models import make_inputs
from tests.keras_moe.compress.models import outputs_of

pytestmark = pytest.mark.traced_once("tensorflow")


def model() -> keras.Model:
    mixture = MoE(
        TopKGate(6, k=2, balance="bias", seed=0),
        MLPExperts(3, [8, 3], split=2, seed=1),
        shared_experts=MLPExperts(2, [4, 3], bias_initializer="ones", seed=2),
        name="mixture",
    )
    return keras.Sequential([keras.Input((NUM_FEATURES,)), mixture])


def shared_part(whole: keras.Model, x: np.ndarray) -> np.ndarray:
    """What the shared experts add."""
    experts = whole.get_layer("mixture").shared_experts
    return keras.ops.convert_to_numpy(experts(x)).sum(axis=1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("smaller", [prune, merge])
def test_shared_experts_stay(smaller):
    whole, x = model(), make_inputs()
    lessened, _ = smaller(whole, x, num_experts=3)
    mixture = lessened.get_layer("mixture")
    assert (mixture.experts.num_experts, mixture.experts.units) == (3, [4, 3])
    np.testing.assert_array_equal(
        shared_part(lessened, x), shared_part(whole, x)
    )


def test_both_banks_are_quantized():
    whole, x = model(), make_inputs()
    quantized, _ = quantize(whole, x)
    mixture = quantized.get_layer("mixture")
    assert isinstance(mixture.experts, QuantizedExperts)
    assert isinstance(mixture.shared_experts, QuantizedExperts)
    np.testing.assert_allclose(
        outputs_of(quantized, x), outputs_of(whole, x), atol=0.03
    )
