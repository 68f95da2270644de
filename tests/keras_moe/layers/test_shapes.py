"""Shapes that do not fit each other: an error says what was expected."""

from typing import Any

import keras
import numpy as np
import pytest

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import ConditionalMask
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import TopKGate
from tests.keras_moe.layers.gates import registry
from tests.keras_moe.layers.gates.registry import build_gate

pytestmark = [
    pytest.mark.usefixtures("sparse_pays"),
    pytest.mark.traced_once("jax"),
]

EXECUTIONS = ("dense", "sparse", "auto")


def moe(execution: str = "auto") -> MoE:
    return MoE(TopKGate(4, k=2), MLPExperts(4, 3), execution=execution)


def mmoe(execution: str = "auto") -> MMoE:
    gates = {"a": TopKGate(4, k=2), "b": TopKGate(4, k=1)}
    return MMoE(gates, MLPExperts(4, 3), execution=execution)


def cgc(execution: str = "auto") -> CGC:
    return CGC(
        {"a": TopKGate(4, k=2), "b": TopKGate(4, k=1)},
        shared_experts=MLPExperts(2, 3),
        task_experts={"a": MLPExperts(2, 3), "b": MLPExperts(2, 3)},
        execution=execution,
    )


def ple(execution: str = "auto") -> PLE:
    return PLE([cgc(execution)])


MIXTURES = [moe, mmoe, cgc, ple]


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("make", MIXTURES)
def test_gate_inputs_have_as_many_rows_as_inputs(
    make: Any, execution: str
) -> None:
    message = r"`gate_inputs` must be those of `inputs`.*\(8, 5\).*\(6, 2\)"
    with pytest.raises(ValueError, match=message):
        make(execution)(ones(8, 5), gate_inputs=ones(6, 2))
    mixture = make(execution)
    mixture.build((None, 5), (None, 2))
    with pytest.raises(ValueError, match=message):
        mixture(ones(8, 5), gate_inputs=ones(6, 2))


@pytest.mark.parametrize("make", MIXTURES)
def test_build_refuses_other_leading_dimensions(make: Any) -> None:
    for inputs, gate_inputs in (((6, 5), (8, 2)), ((8,), (8, 3, 2))):
        with pytest.raises(ValueError, match="`gate_inputs` must be those of"):
            make().build(inputs, gate_inputs)


@pytest.mark.parametrize("make", MIXTURES)
@pytest.mark.parametrize("shape", [(2,), (2, 3, 5), (3, 2), (2, 4), (1, 3)])
def test_a_mask_has_one_entry_per_routed_row(
    make: Any, shape: tuple[int, ...]
) -> None:
    mixture = make()
    mixture.build((None, None, 5))
    with pytest.raises(
        ValueError,
        match=r"`mask` must have one entry per routed row, the shape \(2, 3\). "
        r"Received: mask of shape \(",
    ):
        mixture(ones(2, 3, 5), mask=np.ones(shape, bool))


@pytest.mark.parametrize("make", MIXTURES)
def test_so_has_the_mask_of_the_gate_inputs(make: Any) -> None:
    with pytest.raises(ValueError, match="`gate_inputs_mask` must have one"):
        make()(ones(2, 5), ones(2, 4), gate_inputs_mask=np.ones((2, 4), bool))


def test_a_mask_of_tokens_says_nothing_of_examples() -> None:
    ids = np.array([[3, 1, 0], [0, 2, 0]])
    tokens = keras.layers.Embedding(4, 5, mask_zero=True)(ids)
    mixture = MoE(
        TopKGate(2, k=1), [keras.layers.Conv1D(3, 2) for _ in range(2)]
    )
    assert tuple(mixture(tokens, gate_inputs=ones(2, 4)).shape) == (2, 2, 3)


@pytest.mark.parametrize("make", MIXTURES)
def test_perceptrons_take_one_axis_of_features(make: Any) -> None:
    with pytest.raises(ValueError, match=r"must have 1 feature axis.*3, 5"):
        make().build((2, 3, 5), (2, 4))


@pytest.mark.parametrize("make", MIXTURES)
def test_the_mask_of_the_call_goes_before_that_of_gate_inputs(
    make: Any,
) -> None:
    mask = np.array([True, False])
    mixture = make()
    mixture.build((None, 5), (None, 4))
    for output in keras.tree.flatten(
        mixture(ones(2, 5), ones(2, 4), mask=mask, gate_inputs_mask=~mask)
    ):
        assert not keras.ops.convert_to_numpy(output)[1].any()


@pytest.mark.parametrize("make", MIXTURES)
def test_inputs_are_as_wide_as_those_that_it_was_built_for(make: Any) -> None:
    mixture = make()
    mixture.build((None, 5))
    with pytest.raises(ValueError, match=r"5 features.*Received.*\(8, 6\)"):
        mixture(ones(8, 6))
    mixture = make()
    mixture.build((None, 5), (None, 2))
    with pytest.raises(ValueError, match=r"must have 5 features.*, 6\)"):
        mixture(ones(8, 6), gate_inputs=ones(8, 2))


@pytest.mark.parametrize("name", registry.ON_FEATURES)
def test_a_gate_refuses_another_width(name: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"`inputs` of the gate '.*' must have 4 features, .* "
        r"Received: inputs of shape \(3, 5\)",
    ):
        build_gate(name)(ones(3, 5))


@pytest.mark.parametrize("name", registry.PER_EXAMPLE)
def test_a_gate_refuses_another_mask(name: str) -> None:
    gate = build_gate(name)
    inputs = registry.make_inputs(gate, np.random.default_rng(0))
    for shape in ((5,), (6, 1), (1,)):
        with pytest.raises(ValueError, match=r"`mask` must have one .*\(6,\)"):
            gate(inputs, mask=np.ones(shape, bool))


def test_ids_have_no_width() -> None:
    mixture = MoE(HashGate(4, num_buckets=9), MLPExperts(4, 3))
    mixture.build((None, 5), (None,))
    ids = np.arange(6, dtype="int32")
    assert tuple(mixture(ones(6, 5), ids).shape) == (6, 3)
    with pytest.raises(ValueError, match="`gate_inputs` must be those of"):
        mixture(ones(5, 5), ids)


def test_a_permutation_refuses_another_number_of_experts() -> None:
    permutation = SinkhornPermutation(4)
    permutation.build((None, 4))
    with pytest.raises(ValueError, match=r"must have 4 features.* \(2, 5\)"):
        permutation(ones(2, 5))
    gate = PermutedGate(TopKGate(4, k=2))
    gate.build((None, 3))
    with pytest.raises(ValueError, match="must have 3 features"):
        gate(ones(2, 4))


@pytest.mark.parametrize(
    ("inputs", "routing_inputs"),
    [
        ((6, 8), (4, 3)),
        ((2, 3, 8), (3, 3, 3)),
        ((1, 8), (2, 3)),
        ((6, 7), (6, 3)),
        ((6, 8), (6, 4)),
        ((6, 8), (6, 1, 3)),
    ],
)
def test_a_conditional_mask_refuses_other_shapes(
    inputs: tuple[int, ...], routing_inputs: tuple[int, ...]
) -> None:
    mask = ConditionalMask(0.5)
    mask.build((None, *inputs[1:-1], 8), (None, *inputs[1:-1], 3))
    with pytest.raises(ValueError, match=r"Received: .*routing_inputs of sha"):
        mask(ones(*inputs), ones(*routing_inputs))
    if inputs[-1] == 8 and routing_inputs[-1] == 3:
        with pytest.raises(ValueError, match="`routing_inputs` must "):
            ConditionalMask(0.5).build(inputs, routing_inputs)
