from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.training.shuffled_batches import shuffled_rows

pytestmark = pytest.mark.once("torch")

SEEDS = st.integers(0, 2**32 - 1)


@given(st.integers(1, 60), st.none() | st.integers(1, 70), SEEDS)
def test_each_row_comes_once_and_none_before_it_is_read(
    num_rows: int, buffer: int | None, seed: int
) -> None:
    order = shuffled_rows(num_rows, buffer, np.random.default_rng(seed))
    assert sorted(order) == list(range(num_rows))
    read = np.arange(num_rows) + (buffer or num_rows)
    assert np.all(order < read)


def test_buffer_of_one_row_keeps_the_order() -> None:
    order = shuffled_rows(5, 1, np.random.default_rng(0))
    assert order.tolist() == [0, 1, 2, 3, 4]


def test_buffer_of_all_rows_is_a_full_shuffle() -> None:
    for buffer in (None, 9, 10):
        order = shuffled_rows(9, buffer, np.random.default_rng(0))
        expected = np.random.default_rng(0).permutation(9)
        assert order.tolist() == expected.tolist()


def test_all_orders_of_a_buffer_are_equally_likely() -> None:
    """Two of three rows are held: the third is never first."""
    generator = np.random.default_rng(0)
    orders = Counter(
        tuple(shuffled_rows(3, 2, generator).tolist()) for _ in range(4000)
    )
    assert orders.keys() == {(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0)}
    # Five standard deviations of a binomial count.
    assert all(abs(count - 1000) < 137 for count in orders.values())
