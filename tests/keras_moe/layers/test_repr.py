"""`repr` says what a layer is made of."""

from typing import Any

import keras
import pytest

from keras_moe.layers import COMETGate
from keras_moe.layers import ConstantGate
from keras_moe.layers import Experts
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftMoE
from keras_moe.layers import TopKGate
from keras_moe.layers import VMoEGate

pytestmark = pytest.mark.once("torch")

GATE = "TopKGate(num_experts=4, k=2, name='gate')"
EXPERTS = (
    "MLPExperts(num_experts=4, units=[8], activation='relu', dropout=0.0, "
    "name='experts')"
)


def gate() -> TopKGate:
    return TopKGate(4, k=2, name="gate")


def experts() -> MLPExperts:
    return MLPExperts(4, 8, name="experts")


def layers(count: int) -> list[keras.layers.Layer]:
    return [keras.layers.Dense(2, name=f"dense_{i}") for i in range(count)]


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (gate(), GATE),
        (
            COMETGate(16, k=2, gamma=10.0, seed=3, name="comet"),
            "COMETGate(num_experts=16, seed=3, k=2, gamma=10.0, "
            "entropy_weight=0.0, name='comet')",
        ),
        (
            TopKGate(4, 1, noisy=True, load_balance_loss_weight=0.1, name="g"),
            "TopKGate(num_experts=4, load_balance_loss_weight=0.1, "
            "load_balance_choices='all', k=1, noisy=True, name='g')",
        ),
        (
            VMoEGate(4, k=1, use_bias=False, name="g"),
            "VMoEGate(num_experts=4, use_bias=False, k=1, noise_std=1.0, "
            "name='g')",
        ),
        (
            ConstantGate([0.5, 0.5], name="g"),
            "ConstantGate(weights=[0.5, 0.5], name='g')",
        ),
        (
            PermutedGate(gate(), SinkhornPermutation(4, name="p"), name="g"),
            f"PermutedGate(gate={GATE}, permutation=SinkhornPermutation("
            "num_experts=4, entropy_weight=0.0001, normalized='rows', "
            "schedule='published', name='p'), name='g')",
        ),
        (
            MoE(gate(), experts(), name="m"),
            f"MoE(execution='auto', experts={EXPERTS}, gate={GATE}, name='m')",
        ),
        (
            MMoE({"a": gate(), "b": gate()}, experts(), "sparse", name="m"),
            f"MMoE(execution='sparse', experts={EXPERTS}, "
            f"gates={{'a': {GATE}, 'b': {GATE}}}, name='m')",
        ),
        (
            SoftMoE(experts(), slots_per_expert=2, name="s"),
            f"SoftMoE(experts={EXPERTS}, slots_per_expert=2, name='s')",
        ),
    ],
)
def test_arguments_that_matter_are_shown(layer: Any, text: str) -> None:
    assert repr(layer) == text


def test_layers_without_a_configuration_have_one_too() -> None:
    class Own(Experts):
        def __init__(self, num_experts: int, anything: object) -> None:
            super().__init__(num_experts, name="own")

    assert "Own name=own" in repr(Own(2, anything=object()))


@pytest.mark.parametrize(
    ("count", "end"), [(2, "<Dense name=dense_1"), (16, ", ... 16 in all]")]
)
def test_of_a_long_list_of_layers_one_is_shown(count: int, end: str) -> None:
    mixture = MoE(TopKGate(count, k=1), layers(count))
    text = repr(mixture)
    assert "experts=LayerExperts(experts=[<Dense name=dense_0" in text
    assert end in text
    assert len(text) < 400


def test_a_notebook_shows_the_parts_of_a_mixture() -> None:
    mixture = MMoE({"<b>": gate()}, experts(), name="mixture")
    shown = mixture._repr_html_()
    assert "<b>MMoE</b> mixture" in shown
    assert "gates[&#x27;&lt;b&gt;&#x27;]: <b>TopKGate</b> gate" in shown
    assert "<td>k</td><td>2</td>" in shown
    assert "<b>" not in shown.replace("<b>MMoE", "").replace(
        "<b>TopKGate", ""
    ).replace("<b>MLPExperts", "")
    assert "weights" not in shown
    mixture(keras.ops.ones((1, 3)))
    assert f"<td>weights</td><td>{4 * (3 * 8 + 8)}</td>" in (
        mixture._repr_html_()
    )


def test_a_notebook_shows_the_first_of_many_experts() -> None:
    shown = MoE(TopKGate(6, 2), layers(6))._repr_html_()
    assert "experts[3]: <b>Dense</b> dense_3" in shown
    assert "dense_4" not in shown
    assert "and 2 more" in shown
