"""Budgets of experts per row in `CGC` and the layers that are made of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import STEM
from keras_moe.layers import AdaTT
from keras_moe.layers import BudgetGate
from keras_moe.layers import HoME
from keras_moe.layers import SoftmaxGate
from keras_moe.layers import record_routing
from keras_moe.layers.execution import Execution
from tests.keras_moe.layers.cgc.small_cgc import INPUTS
from tests.keras_moe.layers.cgc.small_cgc import ROWS
from tests.keras_moe.layers.cgc.small_cgc import assert_all_close
from tests.keras_moe.layers.cgc.small_cgc import experts
from tests.keras_moe.layers.cgc.small_cgc import run_experts
from tests.keras_moe.layers.cgc.small_cgc import small_cgc

TASKS = ("a", "b")


def budget_gate(num_experts: int, seed: int) -> BudgetGate:
    inner = SoftmaxGate(num_experts, kernel_initializer="normal", seed=seed)
    return BudgetGate(inner, k=min(2, num_experts))


def budget_cgc(execution: str = "auto", **kwargs: Any) -> CGC:
    """Six shared experts, two of task a, one of task b."""
    return small_cgc(
        gates={"a": budget_gate(8, 0), "b": budget_gate(7, 1)},
        shared_experts=experts(6, seed=2),
        execution=execution,
        **kwargs,
    )


def level(create: Callable[..., CGC], **kwargs: Any) -> CGC:
    """A level of two experts each, whose gates weigh what `create` has it."""
    count = 4 if create is CGC else 6
    return create(
        {task: budget_gate(count, i) for i, task in enumerate(TASKS)},
        experts(2, seed=2),
        {task: experts(2, seed=3 + i) for i, task in enumerate(TASKS)},
        **kwargs,
    )


def small_ple() -> PLE:
    return PLE([level(CGC, shared_gate=budget_gate(6, 9)), level(CGC)])


def small_home() -> HoME:
    own = {task: budget_gate(2, 20 + i) for i, task in enumerate(TASKS)}
    tasks = CGC(
        {task: budget_gate(6, 10 + i) for i, task in enumerate(TASKS)},
        experts(2, seed=12),
        {task: experts(2, seed=13 + i) for i, task in enumerate(TASKS)},
        self_gates=own,
        group_experts={name: experts(2, seed=16) for name in ("g", "h")},
        task_groups={"a": "g", "b": "h"},
    )
    groups = CGC(
        {name: budget_gate(4, i) for i, name in enumerate(("g", "h"))},
        experts(2, seed=2),
        {name: experts(2, seed=3) for name in ("g", "h")},
        shared_gate=budget_gate(6, 9),
    )
    return HoME(groups, tasks)


def experts_in_use(
    layer: keras.layers.Layer, x: np.ndarray, budget: Any
) -> Any:
    """The experts of each row, by the number of experts of the gate."""
    with record_routing() as records:
        layer(x, budget=budget)
    return [
        (weights.shape[-1], np.count_nonzero(to_numpy(weights), axis=-1))
        for record in records
        for weights in record.weights.values()
    ]


@pytest.mark.parametrize("budget", [1, 2.5, 7.5, 100, None])
def test_each_gate_has_the_budget(budget: float | None, x: np.ndarray) -> None:
    own = {"a": budget_gate(2, 5)}
    layer = budget_cgc(self_gates=own)
    layer(x, training=True)
    shared = run_experts(layer.shared_experts, x)
    outputs = layer(x, budget=budget)
    for task, of_task in layer.task_experts.items():
        bank = run_experts(of_task, x)
        expected = 0.0
        readers = [(layer.gates[task], np.concatenate([shared, bank], axis=1))]
        if task in own:
            readers.append((own[task], bank))
        for gate, values in readers:
            count = None if budget is None else min(budget, gate.num_experts)
            weights = to_numpy(gate(x, budget=count))
            expected += np.einsum("ne,neh->nh", weights, values)
        assert_all_close([outputs[task]], [expected])


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("sparse_pays")
@pytest.mark.parametrize("budget", [1, 3, "by row", None])
def test_executions_agree_at_any_budget(budget: Any, x: np.ndarray) -> None:
    if budget == "by row":
        budget = np.tile([1, 8], ROWS)[:ROWS].astype("float32")

    def outputs(execution: str) -> list[np.ndarray]:
        layer = budget_cgc(execution)
        layer(x, training=True)
        return list(layer(x, budget=budget).values())

    expected = outputs("dense")
    for execution in ("sparse", "auto"):
        assert_all_close(outputs(execution), expected)


@pytest.mark.traced_once("tensorflow")
@pytest.mark.eager
@pytest.mark.usefixtures("sparse_pays")
def test_banks_plan_for_the_budget(
    x: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = budget_cgc()
    layer(x, training=True)
    plans = []
    run_planned = Execution._run_planned

    def spy(execution: Any, rows: Any, *args: Any) -> Any:
        plans.append(execution.bounds.of_gates(len(rows), None))
        return run_planned(execution, rows, *args)

    monkeypatch.setattr(Execution, "_run_planned", spy)
    layer(x)
    layer(x, budget=1)
    # Of two tasks, in the bank that they share, and each task's own.
    assert plans[0] == [2 * ROWS, 2 * ROWS]
    assert [ROWS, ROWS] in plans
    assert all(pairs <= 2 * ROWS for plan in plans for pairs in plan)


@pytest.mark.eager
@pytest.mark.parametrize(
    "make",
    [
        budget_cgc,
        small_ple,
        small_home,
        lambda: level(AdaTT),
        lambda: level(STEM),
    ],
    ids=["cgc", "ple", "home", "adatt", "stem"],
)
def test_all_levels_have_the_budget(
    make: Callable[[], keras.layers.Layer], x: np.ndarray
) -> None:
    layer = make()
    layer(x, training=True)
    for _, counts in experts_in_use(layer, x, 1):
        np.testing.assert_array_equal(counts, 1)
    for num_experts, counts in experts_in_use(layer, x, 100):
        np.testing.assert_array_equal(counts, num_experts)
    rows = np.tile([1.0, 100], ROWS)[:ROWS].astype("float32")
    for num_experts, counts in experts_in_use(layer, x, rows):
        np.testing.assert_array_equal(counts[::2], 1)
        np.testing.assert_array_equal(counts[1::2], num_experts)


def test_a_saved_model_takes_budgets(x: np.ndarray, tmp_path: Path) -> None:
    layer = small_ple()
    layer(x, training=True)
    inputs, budget = keras.Input((INPUTS,)), keras.Input(())
    outputs = layer(inputs, budget=budget)
    keras.Model([inputs, budget], outputs).save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    budgets = np.linspace(1, 6, ROWS).astype("float32")
    actual = restored([x, budgets])
    expected = layer(x, budget=budgets)
    assert_all_close(
        [actual[task] for task in TASKS], [expected[task] for task in TASKS]
    )


def test_refuses_a_budget_where_a_gate_takes_none(x: np.ndarray) -> None:
    for layer in (
        small_cgc(),
        budget_cgc(self_gates={"a": SoftmaxGate(2)}),
        PLE([small_cgc()]),
    ):
        with pytest.raises(ValueError, match="`budget` must be None with a"):
            layer(x, budget=2)


def test_refuses_a_budget_below_one_expert(x: np.ndarray) -> None:
    with pytest.raises(ValueError, match="`budget` must be between 1 and 8"):
        budget_cgc()(x, budget=0.5)
    with pytest.raises(TypeError, match="`budget`"):
        budget_cgc()(x, budget="few")
