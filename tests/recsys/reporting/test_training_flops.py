from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from keras_moe.layers import BudgetGate
from keras_moe.layers import Gate
from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.layers import PermutedGate
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import record_routing
from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.reporting.operations import Operations
from recsys.reporting.operations import _chosen
from recsys.reporting.operations import _drawn_weights
from recsys.reporting.training_flops import flops_of_training

# A ranker of 4 experts 3 -> 5, for 2 tasks with gates 3 -> 4 and heads 5 -> 1.
GATES, HEADS = 2 * 2 * 3 * 4, 2 * 2 * 5
EXPERT, WEIGHTED = 2 * 3 * 5, 2 * 5
TINY = Operations(GATES + HEADS, EXPERT, WEIGHTED, 4, 2, 2.5, 3.0)
HISTORY = pd.DataFrame(
    {"experts_evaluated": [3.0, 2.0], "experts_per_example": [2.0, 1.0]}
)


def step(experts: float, weights: float) -> float:
    """Forward, and twice that backward."""
    forward = GATES + HEADS + EXPERT * experts + WEIGHTED * weights
    return 3 * forward


def resolved(gate: str, **fields: Any) -> ResolvedConfig:
    config = TrainConfig("synthetic", "run", gate=gate, **fields)
    return ResolvedConfig.of(config)


def counted(gate: str, **fields: Any) -> list[float]:
    config = resolved(gate, **fields)
    return flops_of_training(TINY, HISTORY, config)


def test_a_prediction_and_a_step_by_hand() -> None:
    forward = 48 + 20 + 30 * 2.5 + 10 * 3
    assert TINY.forward(TINY.experts, TINY.weights) == forward == 173
    assert TINY.training(TINY.experts, TINY.weights) == 519


@pytest.mark.parametrize("gate", ["dselect-k", "comet"])
def test_gate_that_starts_dense(gate: str) -> None:
    # From 4 to 3 and from 3 to 2; of each gate from 4 to 2 and from 2 to 1.
    assert counted(gate) == [step(3.5, 2 * 3), step(2.5, 2 * 1.5)]


def test_choices_cost_no_more_once_they_are_binary() -> None:
    """All choose from step 5 of 20 on, in the first of two epochs."""
    history = HISTORY.assign(
        steps=[10.0, 20.0],
        steps_until_binary=5.0,
        experts_evaluated=2.0,
        experts_per_example=1.0,
    )
    config = resolved("dselect-k")
    # Half of the epoch from 4 to 2, half at 2; of each gate from 4 to 1.
    first = step((3 + 2) / 2, 2 * (2.5 + 1) / 2)
    assert flops_of_training(TINY, history, config) == [first, step(2, 2)]
    open_end = history.assign(steps_until_binary=[5.0, float("nan")])
    dense, _ = flops_of_training(TINY, open_end, config)
    assert dense == step(3, 2 * 2.5)


@pytest.mark.parametrize("gate", ["top-k", "moesart", "hash", "switch"])
def test_gate_that_starts_sparse(gate: str) -> None:
    assert counted(gate) == [step(3, 2 * 2), step(2.5, 2 * 1.5)]


@pytest.mark.parametrize("gate", ["softmax", "gumbel-softmax"])
def test_gate_that_trains_dense(gate: str) -> None:
    assert counted(gate) == [step(4, 2 * 4)] * 2


def test_search_runs_all_experts_while_it_lasts() -> None:
    dense, after = counted("top-k+", search_epochs=1)
    assert (dense, after) == (step(4, 8), step(2.5, 3))
    assert counted("comet+", search_epochs=5) == [step(4, 8)] * 2


def test_budgets_that_are_drawn_count_in_training() -> None:
    """Not those of the validation rows, which have `k` experts."""
    tiny = replace(TINY, drawn=(3.4, 5.5))
    config = resolved("budget", k=2)
    assert flops_of_training(tiny, HISTORY, config) == [step(3.4, 5.5)] * 2
    config = resolved("budget+", k=2, search_epochs=1)
    assert flops_of_training(tiny, HISTORY, config) == [
        step(4, 8),
        step(3.4, 5.5),
    ]


@pytest.mark.once("torch")
@pytest.mark.parametrize("search", [False, True])
def test_the_experts_of_drawn_budgets(search: bool) -> None:
    """Of a gate, also within another, as many as its training draws."""

    def gate(seed: int) -> Gate:
        inner = BudgetGate(
            SoftmaxGate(16, seed=seed), k=2, train_budgets=(1, 8)
        )
        return PermutedGate(inner) if search else inner

    gates = {"a": gate(1), "b": gate(2)}
    x = np.random.default_rng(0).normal(size=(4000, 6)).astype("float32")
    for each in gates.values():
        each(x)
        for batch in x.reshape(40, 100, 6):  # It learns its thresholds.
            budget_gate_of(each)(batch, training=True)
    mixture = MMoE(gates, MLPExperts(16, 3))
    with record_routing() as records:
        mixture(x)
    drawn = _drawn_weights(records[0])
    assert drawn is not None
    chosen = _chosen(drawn)
    # (8 - 1) / log(8) of each gate; they share few.
    assert chosen.sum(axis=2).mean() == pytest.approx(3.37, rel=0.05)
    together = chosen.any(axis=1).sum(axis=1).mean()
    assert 3.37 < together < 2 * 3.37


def budget_gate_of(gate: Gate) -> Gate:
    return gate.gate if isinstance(gate, PermutedGate) else gate


@pytest.mark.once("torch")
def test_other_gates_draw_no_budgets() -> None:
    mass = BudgetGate(SoftmaxGate(4), mass=0.5)
    for gate in (SoftmaxGate(4), mass, PermutedGate(SoftmaxGate(4))):
        with record_routing() as records:
            MoE(gate, MLPExperts(4, 3))(np.ones((2, 3), "float32"))
        assert _drawn_weights(records[0]) is None
