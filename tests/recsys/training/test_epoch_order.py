import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.streaming.epoch_order import EpochOrder
from recsys.data.streaming.epoch_order import Share
from recsys.training.batches import TrainingBatches

pytestmark = pytest.mark.once("torch")

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(SIZES, st.integers(1, 20), st.integers(0, 9), st.integers(0, 9))
def test_every_unit_is_in_one_pool_no_larger_than_need_be(
    sizes: list[int], pool_rows: int, seed: int, epoch: int
) -> None:
    order = EpochOrder(sizes, pool_rows, seed, epoch)
    units = [unit for pool in order.pools for unit in pool]
    assert sorted(units) == list(range(len(sizes)))
    rows = [sum(sizes[unit] for unit in pool) for pool in order.pools]
    assert order.ends.tolist() == np.cumsum(rows).tolist()
    assert all(count >= pool_rows for count in rows[:-1])
    if len(order.pools) == 1:
        return
    for pool, count in zip(order.pools, rows, strict=True):
        assert count - sizes[pool[-1]] < pool_rows


@given(SIZES, st.integers(1, 20), st.data())
def test_pieces_are_the_rows_that_were_asked_for(
    sizes: list[int], pool_rows: int, data: st.DataObject
) -> None:
    order = EpochOrder(sizes, pool_rows, seed=0, epoch=0)
    where = [
        (pool, place)
        for pool in range(len(order.pools))
        for place in range(len(order.rows(pool)))
    ]
    start = data.draw(st.integers(0, sum(sizes)))
    stop = data.draw(st.integers(start, sum(sizes)))
    found = [
        (pool, place)
        for pool, first, last in order.pieces(start, stop)
        for place in range(first, last)
    ]
    assert found == where[start:stop]


def test_units_and_rows_come_in_another_order_each_epoch() -> None:
    first, again, second, other = (
        EpochOrder([5] * 20, 20, seed, epoch)
        for seed, epoch in [(0, 0), (0, 0), (0, 1), (1, 0)]
    )
    assert first.pools == again.pools
    assert first.pools != second.pools
    assert first.pools != other.pools
    rows = [tuple(order.rows(0)) for order in (first, again, second, other)]
    rows.append(tuple(first.rows(1)))
    assert rows[0] == rows[1]
    assert len(set(rows)) == 4


@given(SIZES, st.integers(0, 9), st.integers(0, 9))
def test_one_pool_has_the_order_of_rows_in_memory(
    sizes: list[int], seed: int, epoch: int
) -> None:
    rows = np.arange(sum(sizes))
    batches = TrainingBatches(({"row": rows},), len(rows), seed)
    batches.shuffle(epoch)
    order = EpochOrder(sizes, len(rows), seed, epoch)
    assert order.pools == [list(range(len(sizes)))]
    assert order.rows(0).tolist() == batches[0][0]["row"].tolist()


@given(SIZES, st.integers(1, 20), st.integers(1, 4), st.integers(0, 9))
def test_each_row_is_in_one_share_and_all_are_as_large(
    sizes: list[int], pool_rows: int, count: int, epoch: int
) -> None:
    each = sum(sizes) // count
    starts = np.cumsum([0, *sizes])
    found: list[int] = []
    cut = 0
    for index in range(count):
        order = EpochOrder(sizes, pool_rows, 0, epoch, Share(index, count))
        units = [unit for pool in order.pools for unit in pool]
        rows = [
            starts[unit] + np.arange(sizes[unit])[order.rows_of_unit(unit)]
            for unit in units
        ]
        cut += sum(
            len(some) < sizes[unit]
            for unit, some in zip(units, rows, strict=True)
        )
        assert sum(map(len, rows)) == each == (order.ends[-1] if each else 0)
        found += np.concatenate(rows).tolist() if rows else []
    assert len(set(found)) == len(found) == count * each
    # Of the units at the ends of a share at most.
    assert cut <= 2 * count


def test_pools_of_two_shares_are_in_orders_of_their_own() -> None:
    first, second = (
        EpochOrder([5] * 20, 20, 0, 0, Share(index, 2)) for index in range(2)
    )
    assert first.rows(0).tolist() != second.rows(0).tolist()
