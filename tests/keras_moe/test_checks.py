import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_moe.checks import LARGEST_SIZE
from keras_moe.checks import check_integer
from keras_moe.checks import check_size
from keras_moe.layers import COMETGate
from keras_moe.layers import ConditionallyOverlappingMLP
from keras_moe.layers import DSelectKGate
from keras_moe.layers import ExpertChoiceGate
from keras_moe.layers import GumbelSoftmaxGate
from keras_moe.layers import HashGate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MOESARTGate
from keras_moe.layers import ReMoEGate
from keras_moe.layers import SinkhornPermutation
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import SoftMoE
from keras_moe.layers import SwitchGate
from keras_moe.layers import TopKGate
from keras_moe.layers import VMoEGate
from keras_moe.layers import XMoEGate
from keras_moe.metrics import LoadImbalance
from keras_moe.metrics import LoadPerExpert
from keras_moe.metrics import WeightPerExpert
from tests.examples import examples

# Each makes a layer or metric with one size; the name is that of the argument.
SIZES = {
    "MLPExperts.num_experts": lambda size: MLPExperts(size, 3),
    "MLPExperts.units": lambda size: MLPExperts(2, [3, size]),
    "ConditionallyOverlappingMLP.units": lambda size: (
        ConditionallyOverlappingMLP([size, 1], keep_rate=0.5)
    ),
    "SoftMoE.slots_per_expert": lambda size: SoftMoE(
        MLPExperts(2, 3), slots_per_expert=size
    ),
    "SinkhornPermutation.num_experts": SinkhornPermutation,
    "SoftmaxGate.num_experts": SoftmaxGate,
    "TopKGate.num_experts": lambda size: TopKGate(size, k=2),
    "VMoEGate.num_experts": lambda size: VMoEGate(size, k=2),
    "SwitchGate.num_experts": SwitchGate,
    "XMoEGate.num_experts": lambda size: XMoEGate(size, k=2),
    "XMoEGate.projection_dim": lambda size: XMoEGate(
        4, k=2, projection_dim=size
    ),
    "HashGate.num_experts": lambda size: HashGate(size, num_buckets=4),
    "HashGate.num_buckets": lambda size: HashGate(4, num_buckets=size),
    "GumbelSoftmaxGate.num_experts": GumbelSoftmaxGate,
    "DSelectKGate.num_experts": lambda size: DSelectKGate(size, k=2),
    "COMETGate.num_experts": lambda size: COMETGate(size, k=2),
    "MOESARTGate.num_experts": lambda size: MOESARTGate(size, k=2),
    "ExpertChoiceGate.num_experts": ExpertChoiceGate,
    "ReMoEGate.num_experts": lambda size: ReMoEGate(size, k=2),
    "LoadPerExpert.num_experts": LoadPerExpert,
    "WeightPerExpert.num_experts": WeightPerExpert,
    "LoadImbalance.num_experts": LoadImbalance,
}

# The gates that take a k: it is at most their number of experts, 4.
CHOOSING = {
    "TopKGate": TopKGate,
    "VMoEGate": VMoEGate,
    "SwitchGate": SwitchGate,
    "XMoEGate": XMoEGate,
    "DSelectKGate": DSelectKGate,
    "COMETGate": COMETGate,
    "MOESARTGate": MOESARTGate,
    "ReMoEGate": ReMoEGate,
}


@pytest.mark.once("torch")
@pytest.mark.parametrize("where", SIZES)
@examples(30)
@given(st.integers(min_value=LARGEST_SIZE + 1))
def test_no_size_is_larger_than_an_index(where, size):
    name = where.partition(".")[2]
    message = f"^`{name}` must be at most 2147483647. Received: {name}={size}$"
    with pytest.raises(ValueError, match=message):
        SIZES[where](size)


@pytest.mark.once("torch")
@pytest.mark.parametrize("kind", CHOOSING)
@examples(30)
@given(st.integers(min_value=5))
def test_no_gate_chooses_more_than_all_experts(kind, k):
    with pytest.raises(
        ValueError, match=f"^`k` must be between 1 and 4. Received: k={k}$"
    ):
        CHOOSING[kind](4, k=k)


def test_the_largest_size_is_one():
    assert check_size("units", LARGEST_SIZE) == LARGEST_SIZE
    assert MLPExperts(LARGEST_SIZE, LARGEST_SIZE).units == [LARGEST_SIZE]


def test_a_message_shows_what_it_was_given():
    with pytest.raises(
        ValueError, match=r"^`n` must be at least 2. Received: n=1$"
    ):
        check_size("n", 1, 2)
    with pytest.raises(
        ValueError,
        match=r"^`n` must be at most 2147483647. Received: n=10{30}$",
    ):
        check_size("n", 10**30, 2)


def test_what_is_no_integer_is_no_size():
    for value in (2.0, "2", True, None):
        with pytest.raises(TypeError, match="`n` must be an integer"):
            check_size("n", value)


def test_a_message_has_no_integer_that_is_too_long_to_write():
    received = "Received: n=an integer of about 5,001 digits$"
    with pytest.raises(ValueError, match=f"at most 2147483647. {received}"):
        check_size("n", 10**5000)
    with pytest.raises(ValueError, match=f"between 1 and 4. {received}"):
        check_integer("n", 10**5000, 1, 4)
