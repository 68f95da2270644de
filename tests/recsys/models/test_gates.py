import re
from contextlib import nullcontext
from typing import Any

import pytest

from keras_moe import layers
from recsys.config.gate_names import GATES
from recsys.models.gates import create_gate
from recsys.models.gates import default_options
from recsys.models.gates import gate_class
from recsys.models.gates import option_types
from recsys.models.gates import typed_options


def make(name: str, **options: Any) -> layers.Gate:
    return create_gate(name, 8, 2, 100, 7, options)


@pytest.mark.parametrize("name", GATES)
def test_every_gate_is_made_with_what_it_takes(name: str) -> None:
    gate = make(name)
    assert isinstance(gate, gate_class(name))
    assert gate.num_experts == 8
    assert gate.k in (None, 1, 2)
    assert isinstance(make(f"{name}+"), gate_class(name))


@pytest.mark.parametrize("name", GATES)
def test_names_say_which_gates_have_a_k(name: str) -> None:
    has_k = GATES[name].has_k
    refused = pytest.raises(ValueError, match="`k` must be") if has_k else None
    with refused or nullcontext():
        create_gate(name, 8, k=9, num_buckets=100, seed=7, options={})


@pytest.mark.parametrize("name", GATES)
def test_names_say_which_gates_weigh_a_position_alone(name: str) -> None:
    gate = make(name)
    alone = gate.feature_rank == 1 and not gate.synchronized
    assert GATES[name].by_position == alone


@pytest.mark.parametrize("name", GATES)
def test_first_options_are_arguments_of_the_gate(name: str) -> None:
    options = default_options(name, k=2)
    assert options.keys() <= option_types(name).keys()
    make(name, **options)


@pytest.mark.parametrize("name", GATES)
def test_the_loss_that_balances_is_an_argument_of_the_gate(name: str) -> None:
    gate = gate_class(name)
    if gate.balance_loss is not None and not gate.fixed_by_seed:
        assert gate.balance_loss in option_types(name)


def test_hash_gate_gets_buckets_and_seed() -> None:
    gate = make("hash", balanced=True)
    assert (gate.num_buckets, gate.seed, gate.balanced) == (100, 7, True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("comet", {"gamma": "10"}, {"gamma": 10.0}),
        ("dselect-k", {"static": "true"}, {"static": True}),
        ("dselect-k", {"unreachable": "fold"}, {"unreachable": "fold"}),
        ("top-k", {"noisy": "False"}, {"noisy": False}),
        ("comet", {"split_initializer": "none"}, {"split_initializer": None}),
        ("comet", {"entropy_weight": 0.5}, {"entropy_weight": 0.5}),
    ],
)
def test_options_take_the_types_of_the_arguments(
    name: str, text: dict[str, Any], value: dict[str, Any]
) -> None:
    options = typed_options(name, text)
    assert type(next(iter(options.values()))) is type(
        next(iter(value.values()))
    )
    make(name, **options)


def test_unknown_gate() -> None:
    with pytest.raises(ValueError, match=r"`gate` must be one of .*'x'"):
        typed_options("x", {})


@pytest.mark.parametrize(
    ("name", "option"),
    [
        (
            "v-moe",
            {"load_loss_weight": "0.01", "importance_loss_weight": "0.01"},
        ),
        ("x-moe", {"projection_dim": "4", "load_balance_loss_weight": "0.1"}),
        ("gumbel-softmax", {"sparsity_weight": "0.1"}),
        ("moesart", {"trimmed_lasso_weight": "1", "replacement": "true"}),
        ("expert-choice", {"max_experts_per_token": "3"}),
        ("top-k", {"z_loss_weight": "0.001", "kernel_regularizer": "l2"}),
        ("comet+", {"gamma": "2"}),
    ],
)
def test_inherited_arguments_are_options(
    name: str, option: dict[str, Any]
) -> None:
    gate = make(name, **typed_options(name, option))
    assert set(option) <= set(gate.get_config()) | {"kernel_regularizer"}


def test_what_a_gate_decides_itself_is_no_option() -> None:
    with pytest.raises(ValueError, match="'static'"):
        typed_options("switch", {"static": "true"})


@pytest.mark.parametrize("option", ["gama", "k", "num_experts", "seed"])
def test_unknown_option_lists_those_of_the_gate(option: str) -> None:
    with pytest.raises(
        ValueError, match=rf"gate 'comet' must be among gamma, .*'{option}'"
    ):
        typed_options("comet", {option: "1"})


def test_text_that_is_no_number() -> None:
    message = "gamma must be of type float. Received: gamma='steep'"
    with pytest.raises(ValueError, match=re.escape(message)):
        typed_options("comet", {"gamma": "steep"})


def test_a_gate_is_put_around_another() -> None:
    gate = make("budget")
    assert isinstance(gate, layers.BudgetGate)
    assert type(gate.gate) is layers.SoftmaxGate
    assert (gate.target, gate.train_budgets) == (2, (1, 8))
    gate = make("budget", inner="top-k")
    assert isinstance(gate, layers.BudgetGate)
    assert (gate.gate.k, gate.train_budgets) == (8, (1, 8))
    gate = create_gate("budget", 16, 2, 100, 7, {"inner": "top-k"})
    assert isinstance(gate, layers.BudgetGate)
    assert (gate.gate.k, gate.train_budgets) == (8, (1, 8))
    gate = create_gate("budget", 16, 2, 100, 7, {})
    assert isinstance(gate, layers.BudgetGate)
    assert gate.train_budgets == (1, 16)
    text = {"inner": "top-k", "noisy": "true", "train_budgets": "1,3.5"}
    gate = make("budget", **typed_options("budget", text))
    assert isinstance(gate, layers.BudgetGate)
    assert isinstance(gate.gate, layers.TopKGate)
    # Of as many experts as a budget can be of.
    assert (gate.gate.k, gate.gate.noisy, gate.gate.seed) == (4, True, 7)
    assert gate.train_budgets == (1, 3.5)


def test_a_mass_replaces_k() -> None:
    gate = make("budget", **typed_options("budget", {"mass": "0.9"}))
    assert isinstance(gate, layers.BudgetGate)
    assert (gate.target, gate.mass) == (None, 0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner": "hash"}, r"inner must be one of softmax, .* inner='hash'"),
        ({"inner": "budget"}, "inner must be one of softmax"),
        (
            {"noisy": "true"},
            "must be among inner, mass, train_budgets, .*noisy",
        ),
        ({"gate": "softmax"}, "must be among inner, mass, train_budgets"),
    ],
)
def test_refuses_other_options_of_the_gate_inside(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        typed_options("budget", options)
