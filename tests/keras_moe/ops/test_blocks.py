import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._blocks import block_size
from keras_moe.ops._blocks import group_blocks
from tests.examples import examples


@examples(30)
@given(
    st.lists(st.integers(0, 20), min_size=5, max_size=5),
    st.sampled_from([1, 3, 8]),
)
def test_the_blocks_hold_every_row_of_every_group_once(
    sizes: list[int], block_rows: int
) -> None:
    blocks = group_blocks(np.array(sizes, "int32"), sum(sizes), block_rows)
    experts, starts, ends, firsts, num_used = map(to_numpy, blocks)
    assert (experts[num_used:] == 5).all()
    held = [
        (row, expert)
        for expert, start, end in zip(experts, starts, ends, strict=True)
        for row in range(start, end)
        if expert < 5
    ]
    assert held == list(enumerate(np.repeat(np.arange(5), sizes)))
    used = slice(None, num_used)
    assert (ends[used] - starts[used] <= block_rows).all()
    for expert in np.flatnonzero(sizes):
        assert firsts[expert] == list(experts).index(expert)


@pytest.mark.parametrize("block_rows", [1, 2, 3, 8])
def test_the_blocks_suffice_for_the_worst_spread(block_rows: int) -> None:
    # One row more than whole blocks for as many groups as possible.
    sizes = np.array([block_rows + 1, 1, 1, 1], "int32")
    blocks = group_blocks(sizes, int(sizes.sum()), block_rows)
    assert int(blocks.num_used) == 5
    assert len(to_numpy(blocks.experts)) >= int(blocks.num_used)


def test_a_block_holds_a_share_of_an_average_group() -> None:
    assert block_size(1024, 16, 0.5) == 32
    assert block_size(1024, 16, 1.25) == 80
    assert block_size(100, 16, 0.5) == 8
    assert block_size(3, 16, 0.5) == 3
    assert block_size(10**6, 16, 0.5) == 256
