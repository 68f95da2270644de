import re

import numpy as np
import pytest

from keras_moe.layers import ConstantGate
from tests.keras_moe.layers.layer_test import check_layer


def test_layer(rng, tmp_path):
    check_layer(
        lambda: ConstantGate([0.0, 0.25, 0.75]),
        rng.normal(size=(6, 4)).astype("float32"),
        folder=tmp_path,
        output_shape=(3,),
        trainable_weights=0,
        follows_policy=False,
    )


def test_k_is_how_many_weights_are_not_zero():
    assert ConstantGate([0.0, 0.25, 0.75]).k == 2


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[1.0, 2.0]], "`weights` must be a list of finite numbers"),
        ([1.0, np.nan], "`weights` must be a list of finite numbers"),
        ([0.0, 0.0], "`weights` must not all be zero"),
        ([1.0], "`num_experts` must be"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        ConstantGate(weights)


def test_refuses_the_loss_of_a_router():
    with pytest.raises(ValueError, match="`z_loss_weight` must be 0"):
        ConstantGate([0.5, 0.5], z_loss_weight=0.1)
