import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._selection_bias import moved_bias
from tests.compiled import compiled
from tests.examples import examples

RATE = 0.25
EXPERTS, ROWS = 7, 21

move = compiled(lambda bias, chosen, mask: moved_bias(bias, chosen, RATE, mask))


def reference(
    bias: np.ndarray, chosen: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """By whole numbers, expert by expert."""
    loads = [int(chosen[mask, expert].sum()) for expert in range(len(bias))]
    moved = bias.copy()
    for expert, load in enumerate(loads):
        if load * len(loads) < sum(loads):
            moved[expert] += RATE
        elif load * len(loads) > sum(loads):
            moved[expert] -= RATE
    return moved


def test_by_hand() -> None:
    # Loads of 3, 1, 2 and 2 rows.
    chosen = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 0, 0, 1], [0, 0, 1, 1]])
    bias = np.array([1.0, 1.0, -1.0, 0.0], "float32")
    np.testing.assert_array_equal(
        to_numpy(moved_bias(bias, chosen.astype(bool), 0.5)),
        [0.5, 1.5, -1.0, 0.0],
    )


def test_it_is_the_reference_and_moves_are_of_both_signs() -> None:
    @examples(50)
    @given(st.integers(0, 2**16), st.floats(0, 1))
    def check(seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        chosen = rng.random((ROWS, EXPERTS)) < share * rng.random(EXPERTS)
        mask = rng.random(ROWS) < 0.8
        bias = rng.integers(-9, 9, EXPERTS).astype("float32")
        moved = move(bias, chosen, mask)
        np.testing.assert_array_equal(moved, reference(bias, chosen, mask))
        # Some load is above the mean where another one is below.
        moves = moved - bias
        assert (moves > 0).any() == (moves < 0).any()

    check()


@pytest.mark.parametrize("rows", [1, 3, 10_007])
def test_equal_loads_leave_it_exactly_as_it_is(rows: int) -> None:
    chosen = np.tile(np.eye(EXPERTS, dtype=bool), (rows, 1))
    bias = np.linspace(-1, 1, EXPERTS, dtype="float32")
    np.testing.assert_array_equal(
        to_numpy(moved_bias(bias, chosen, RATE)), bias
    )


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3)])
def test_no_rows_leave_it_as_it_is(shape: tuple[int, ...]) -> None:
    moved = moved_bias(np.ones(3, "float32"), np.zeros(shape, bool), RATE)
    np.testing.assert_array_equal(to_numpy(moved), 1)


def test_all_leading_axes_are_rows(rng: np.random.Generator) -> None:
    chosen = rng.random((3, 7, EXPERTS)) < 0.4
    mask = rng.random((3, 7)) < 0.7
    bias = np.zeros(EXPERTS, "float32")
    np.testing.assert_array_equal(
        to_numpy(moved_bias(bias, chosen, RATE, mask)),
        move(bias, chosen.reshape(ROWS, EXPERTS), mask.reshape(ROWS)),
    )
