import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops

ROWS, EXPERTS = 11, 5


def pairs_of(plan: ops.RoutingPlan, num_rows: int) -> list[tuple[int, int]]:
    """The (row, expert) pairs that a plan computes."""
    rows, experts = to_numpy(plan.rows), to_numpy(plan.experts)
    return [
        (int(row), int(expert))
        for block, expert in zip(rows, experts, strict=True)
        for row in block
        if row < num_rows
    ]


def test_pairs_are_sorted_by_expert_and_padded_to_blocks() -> None:
    selected = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], bool)
    plan = ops.routing_plan(selected, max_pairs=6, block_rows=2)
    # Expert 0 has rows 0, 1, 2; expert 1 none; expert 2 rows 0 and 2. Six
    # pairs could fill four blocks; 3 is no row.
    assert to_numpy(plan.rows).tolist() == [[0, 1], [2, 3], [0, 2], [3, 3]]
    assert to_numpy(plan.experts).tolist() == [0, 0, 2, 3]


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.lists(st.booleans(), min_size=EXPERTS, max_size=EXPERTS),
        min_size=ROWS,
        max_size=ROWS,
    ),
    st.sampled_from([1, 3, 8]),
)
def test_every_selected_pair_has_exactly_one_slot(
    entries: list[list[bool]], block_rows: int
) -> None:
    selected = np.array(entries)
    plan = ops.routing_plan(selected, ROWS * EXPERTS, block_rows)
    expected = [
        (int(row), int(expert)) for expert, row in np.argwhere(selected.T)
    ]
    assert pairs_of(plan, ROWS) == expected


def test_a_budget_that_is_exactly_met_drops_nothing() -> None:
    selected = np.zeros((8, 4), bool)
    selected[:, 2] = True
    for block_rows in (1, 3, 8, 64):
        plan = ops.routing_plan(selected, 8, block_rows)
        assert pairs_of(plan, 8) == [(row, 2) for row in range(8)]


@pytest.mark.parametrize("block_rows", [1, 2, 3, 8])
def test_the_blocks_suffice_for_the_worst_spread(block_rows: int) -> None:
    # One pair more than whole blocks for as many experts as possible.
    selected = np.zeros((9, 4), bool)
    for expert, rows in enumerate((block_rows + 1, 1, 1, 1)):
        selected[: min(rows, 9), expert] = True
    pairs = int(selected.sum())
    plan = ops.routing_plan(selected, pairs, block_rows)
    assert len(pairs_of(plan, 9)) == pairs


def test_no_rows_make_an_empty_plan() -> None:
    plan = ops.routing_plan(np.zeros((0, 4), bool), 0, 8)
    assert to_numpy(plan.rows).tolist() == [[0] * 8]
    assert pairs_of(plan, 0) == []


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="only TensorFlow traces with an unknown number of rows",
)
def test_an_unknown_number_of_rows_makes_the_same_plan(
    rng: np.random.Generator,
) -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.bool)])
    def plan_of(selected: tf.Tensor) -> ops.RoutingPlan:
        return ops.routing_plan(selected, tf.shape(selected)[0] * 4, 8)

    for rows in (1, 40):
        selected = rng.random((rows, 4)) < 0.5
        known = ops.routing_plan(selected, rows * 4, 8)
        for unknown, array in zip(plan_of(selected), known, strict=True):
            np.testing.assert_array_equal(unknown, array)
