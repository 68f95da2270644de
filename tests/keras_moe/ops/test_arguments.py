"""Operations called with arguments of wrong kinds: each is refused by name."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from keras_moe import ops
from keras_moe import regularizers

ROWS, N = 3, 4
CHOSEN = np.ones((ROWS, N), bool)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, "float32")


def plan() -> ops.RoutingPlan:
    return ops.routing_plan(CHOSEN)


# Right arguments, of which one after the other is made wrong.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    function.__name__: (function, arguments)
    for function, arguments in [
        (ops.smooth_step, {"x": ones(3)}),
        (ops.entropy, {"weights": ones(3)}),
        (ops.is_selected, {"weights": ones(3)}),
        (ops.top_k_mask, {"x": ones(ROWS, N), "k": 2}),
        (ops.top_k_indices, {"x": ones(ROWS, N), "k": 2}),
        (ops.top_k_softmax, {"logits": ones(ROWS, N), "k": 2}),
        (ops.keep_largest, {"weights": ones(ROWS, N), "k": 2}),
        (ops.top_rows_mask, {"scores": ones(ROWS, N), "count": 2}),
        (ops.masked_softmax, {"logits": ones(ROWS, N), "mask": CHOSEN}),
        (ops.leaf_probabilities, {"left": ones(ROWS, N)}),
        (ops.code_probabilities, {"bits": ones(ROWS, 2)}),
        (
            ops.gathered_matmul,
            {
                "inputs": ones(2, 2),
                "kernel": ones(3, N),
                "indices": np.array([[0, 1], [1, 2]]),
            },
        ),
        (
            ops.grouped_matmul,
            {
                "inputs": ones(4, 2),
                "kernels": ones(2, 2, 3),
                "group_sizes": np.array([2, 2]),
            },
        ),
        (
            ops.ragged_dot,
            {
                "rows": ones(4, 2),
                "kernels": ones(2, 2, 3),
                "group_sizes": np.array([2, 2]),
            },
        ),
        (ops.routing_plan, {"selected": CHOSEN}),
        (ops.dispatch, {"inputs": ones(ROWS, 2), "plan": plan()}),
        (
            ops.combine,
            {
                "outputs": ones(ROWS * N, 2),
                "weights": ones(ROWS, 1, N),
                "plan": plan(),
            },
        ),
        (
            ops.adjusted_softmax,
            {
                "logits": ones(ROWS, N),
                "counts": ones(ROWS, N),
                "corrected": CHOSEN,
                "k": 2,
            },
        ),
        (ops.choose_one, {"mask": CHOSEN}),
        (ops.draw_with_replacement, {"logits": ones(ROWS, N), "k": 2}),
        (ops.draw_without_replacement, {"logits": ones(ROWS, N), "k": 2}),
        (
            ops.capped_assignment,
            {"scores": ones(ROWS, N), "capacity": 1, "max_per_row": 2},
        ),
        (
            ops.integral_assignment,
            {"choice": ones(ROWS, N), "capacity": 1, "max_per_row": 2},
        ),
        (regularizers.importance_loss, {"weights": ones(ROWS, N)}),
        (
            regularizers.load_balance_loss,
            {"probabilities": ones(ROWS, N), "chosen": CHOSEN},
        ),
        (
            regularizers.load_loss,
            {
                "logits": ones(ROWS, N),
                "noisy_logits": ones(ROWS, N),
                "k": 2,
                "noise_std": 0.5,
            },
        ),
        (regularizers.router_z_loss, {"logits": ones(ROWS, N)}),
        (regularizers.trimmed_lasso, {"weights": ones(ROWS, N), "k": 2}),
    ]
}
NO_TENSORS = [
    None,
    "x",
    {"x": 1.0},
    [[1.0], [2.0, 3.0]],
    ones(2, 2).astype("complex64"),
    np.array(["a"]),
]
NO_INTEGERS = [None, "x", 2.5, 0, -1]


def wrong_for(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return NO_TENSORS
    return NO_INTEGERS if isinstance(value, int) else [None, "x"]


@pytest.mark.parametrize("name", CALLS)
def test_each_wrong_argument_is_named(name: str) -> None:
    function, arguments = CALLS[name]
    for argument, right in arguments.items():
        for value in wrong_for(right):
            with pytest.raises(
                (TypeError, ValueError), match=rf"`{argument}` .*Received: "
            ):
                function(**{**arguments, argument: value})


def test_symbols_and_lists_are_tensors() -> None:
    selected = ops.is_selected(keras.Input((3,)))
    assert tuple(selected.shape) == (None, 3)
    assert [bool(x) for x in ops.is_selected([0.5, 0.0])] == [True, False]


@pytest.mark.parametrize(
    "name", ["top_k_mask", "top_k_softmax", "keep_largest", "load_loss"]
)
def test_k_is_at_most_the_number_of_entries(name: str) -> None:
    function, arguments = CALLS[name]
    with pytest.raises(ValueError, match=r"`k` must be between 1 and 4\. Rec"):
        function(**{**arguments, "k": 5})
