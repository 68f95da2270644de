import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import ops
from keras_moe.ops.routing_plan import first_rows
from tests.examples import examples

ROWS, EXPERTS = 11, 5

# JAX has no plan whose size depends on the values.
SIZES = [ROWS * EXPERTS]
if keras.backend.backend() != "jax":
    SIZES.append(None)


def pairs_of(plan: ops.RoutingPlan, num_experts: int) -> list[tuple[int, int]]:
    """The (row, expert) pairs that a plan computes."""
    rows, experts = to_numpy(plan.rows), to_numpy(plan.experts)
    used = experts < num_experts
    assert not rows[~used].any()
    return [
        (int(row), int(expert))
        for row, expert in zip(rows[used], experts[used], strict=True)
    ]


def test_pairs_are_sorted_by_expert() -> None:
    selected = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], bool)
    plan = ops.routing_plan(selected, max_pairs=6)
    # Expert 0 has rows 0, 1, 2; expert 1 none; expert 2 rows 0 and 2.
    assert to_numpy(plan.rows).tolist() == [0, 1, 2, 0, 2, 0]
    assert to_numpy(plan.experts).tolist() == [0, 0, 0, 2, 2, 3]
    assert to_numpy(plan.group_sizes).tolist() == [3, 0, 2]


@pytest.mark.parametrize("max_pairs", SIZES)
def test_every_selected_pair_has_exactly_one_slot(
    max_pairs: int | None,
) -> None:
    @examples(30)
    @given(
        st.lists(
            st.lists(st.booleans(), min_size=EXPERTS, max_size=EXPERTS),
            min_size=ROWS,
            max_size=ROWS,
        )
    )
    def check(entries: list[list[bool]]) -> None:
        selected = np.array(entries)
        plan = ops.routing_plan(selected, max_pairs)
        assert pairs_of(plan, EXPERTS) == [
            (int(row), int(expert)) for expert, row in np.argwhere(selected.T)
        ]
        sizes = to_numpy(plan.group_sizes)
        np.testing.assert_array_equal(sizes, selected.sum(axis=0))
        if max_pairs is None:
            by_row = to_numpy(plan.by_row)
            in_order = [to_numpy(plan.rows), to_numpy(plan.experts)]
            np.testing.assert_array_equal(
                [array[by_row] for array in in_order], np.nonzero(selected)
            )
            return
        for rows, column in zip(
            to_numpy(first_rows(selected, 4)), selected.T, strict=True
        ):
            (chosen,) = np.nonzero(column)
            expected = [*chosen, *[ROWS] * 4][:4]
            np.testing.assert_array_equal(rows, expected)

    check()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("num_rows", [0, 15, 16, 17, 100])
def test_any_number_of_rows_is_searched(
    num_rows: int, rng: np.random.Generator
) -> None:
    selected = rng.random((num_rows, 3)) < [0.0, 0.5, 1.0]
    plan = ops.routing_plan(selected, num_rows * 3)
    expected = [(int(row), int(e)) for e, row in np.argwhere(selected.T)]
    assert pairs_of(plan, 3) == expected
    found = to_numpy(first_rows(selected, 20))
    for rows, column in zip(found, selected.T, strict=True):
        (chosen,) = np.nonzero(column)
        assert rows.tolist() == [*chosen, *[num_rows] * 20][:20]


def test_a_budget_that_is_exactly_met_drops_nothing() -> None:
    selected = np.zeros((8, 4), bool)
    selected[:, 2] = True
    plan = ops.routing_plan(selected, 8)
    assert pairs_of(plan, 4) == [(row, 2) for row in range(8)]


@pytest.mark.parametrize("max_pairs", [0, *SIZES[1:]])
def test_no_rows_make_an_empty_plan(max_pairs: int | None) -> None:
    plan = ops.routing_plan(np.zeros((0, 4), bool), max_pairs)
    assert to_numpy(plan.rows).shape == (0,)
    assert to_numpy(plan.group_sizes).tolist() == [0, 0, 0, 0]


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
        return ops.routing_plan(selected, tf.shape(selected)[0] * 4)

    for rows in (1, 40):
        selected = rng.random((rows, 4)) < 0.5
        known = ops.routing_plan(selected, rows * 4)
        plan = plan_of(selected)
        for unknown, array in zip(plan[:3], known[:3], strict=True):
            np.testing.assert_array_equal(unknown, array)


def test_pairs_beyond_the_slots_are_dropped_from_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KERAS_MOE_CHECK_VALUES")
    selected = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 1]], bool)
    everything = pairs_of(ops.routing_plan(selected, 6), 3)
    for max_pairs in range(7):
        plan = ops.routing_plan(selected, max_pairs)
        assert pairs_of(plan, 3) == everything[:max_pairs]
        # The experts compute no row that is in no slot.
        sizes = to_numpy(plan.group_sizes)
        assert (sizes >= 0).all()
        assert sizes.sum() == max_pairs


def test_it_raises_an_error_where_values_are_checked() -> None:
    selected = np.ones((2, 3), bool)
    with pytest.raises(ValueError, match=r"`max_pairs` must be .*max_pairs=5"):
        ops.routing_plan(selected, 5)
