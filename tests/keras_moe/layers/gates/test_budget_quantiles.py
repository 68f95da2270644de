import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.layers.gates.budget_quantiles import LEAST_ROWS
from keras_moe.layers.gates.budget_quantiles import SAMPLED_WEIGHTS
from keras_moe.layers.gates.budget_quantiles import sample_rows
from tests.examples import examples


def sampled(rows, n, seed=0):
    numbers = np.arange(rows * n, dtype="float32").reshape(rows, n)
    seed = keras.random.SeedGenerator(seed)
    return to_numpy(sample_rows(keras.ops.convert_to_tensor(numbers), seed))


@pytest.mark.parametrize(("rows", "n"), [(0, 4), (1, 4), (2048, 4), (64, 999)])
def test_a_small_batch_is_taken_as_it_is(rows, n):
    np.testing.assert_array_equal(
        sampled(rows, n)[:, :1].ravel() // n, range(rows)
    )


@examples(20)
@given(rows=st.integers(65, 5000), seed=st.integers(0, 9))
def test_one_row_is_drawn_of_each_span(rows, seed):
    n = 500
    drawn = sampled(rows, n, seed)[:, 0].astype(int) // n
    assert len(drawn) == LEAST_ROWS
    begins = np.arange(LEAST_ROWS + 1) * rows // LEAST_ROWS
    assert (begins[:-1] <= drawn).all()
    assert (drawn < begins[1:]).all()


def test_every_row_can_be_drawn():
    n, rows = SAMPLED_WEIGHTS // 64, 192
    drawn = {
        int(number) // n
        for seed in range(40)
        for number in sampled(rows, n, seed)[:, 0]
    }
    assert drawn == set(range(rows))
