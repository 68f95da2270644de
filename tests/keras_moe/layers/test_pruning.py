import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import ConstantGate
from keras_moe.layers import DSelectKGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import TopKGate
from keras_moe.layers import prune_experts


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(6, 4)).astype("float32")


def top_k(seed: int) -> TopKGate:
    gate = TopKGate(8, k=2, static=True, bias_initializer="random_normal")
    gate.seed = seed
    return gate


def test_only_the_experts_of_some_task_are_kept(x: np.ndarray) -> None:
    gates = {"a": ConstantGate(np.eye(8)[3]), "b": ConstantGate(np.eye(8)[5])}
    mixture = MMoE(gates, MLPExperts(8, [5, 3], bias_initializer="normal"))
    expected = mixture(x)
    pruned = prune_experts(mixture)
    np.testing.assert_array_equal(
        to_numpy(pruned.experts.kernels[0]),
        to_numpy(mixture.experts.kernels[0])[[3, 5]],
    )
    for task, outputs in pruned(x).items():
        np.testing.assert_allclose(
            to_numpy(outputs), to_numpy(expected[task]), rtol=1e-5, atol=1e-6
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "make_gate",
    [
        lambda seed: top_k(seed),
        lambda seed: DSelectKGate(
            8,
            k=2,
            static=True,
            gamma=1e-6,
            seed=seed,
            selector_initializer="random_normal",
        ),
        lambda seed: PermutedGate(top_k(seed), SinkhornPermutation(8)),
    ],
)
@pytest.mark.parametrize("as_list", [False, True])
def test_trained_static_gates_of_either_kind_of_experts(
    make_gate, as_list: bool, x: np.ndarray
) -> None:
    gates = [make_gate(0), make_gate(1)]
    experts = MLPExperts(8, 3, seed=0)
    if as_list:
        experts = [keras.layers.Dense(3) for _ in range(8)]
    mixture = MMoE(gates, experts)
    expected = mixture(x)
    pruned = prune_experts(mixture)
    assert 2 <= pruned.experts.num_experts <= 4
    for one, other in zip(pruned(x), expected, strict=True):
        np.testing.assert_allclose(
            to_numpy(one), to_numpy(other), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("only", [0, 2])
def test_a_single_expert_keeps_another_for_company(
    only: int, x: np.ndarray
) -> None:
    mixture = MoE(ConstantGate(np.eye(3)[only]), MLPExperts(3, 2, seed=0))
    expected = to_numpy(mixture(x))
    pruned = prune_experts(mixture)
    assert pruned.experts.num_experts == 2
    np.testing.assert_allclose(to_numpy(pruned(x)), expected, rtol=1e-5)


def test_nothing_is_left_out_where_every_expert_may_be_used(
    x: np.ndarray,
) -> None:
    by_example = MoE(TopKGate(4, k=1), MLPExperts(4, 2))
    all_used = MoE(ConstantGate([0.5, 0.5]), MLPExperts(2, 2))
    for mixture in (by_example, all_used):
        mixture(x)
        assert prune_experts(mixture) is mixture
