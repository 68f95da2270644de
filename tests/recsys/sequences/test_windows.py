import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from recsys.sequences.user_sequences import UserSequences
from recsys.sequences.windows import NO_ITEM
from recsys.sequences.windows import NO_TARGET
from recsys.sequences.windows import batch_lengths
from recsys.sequences.windows import draw_windows
from recsys.sequences.windows import window_batches

LARGE = 2**53 + 1


def sequences_of(lengths: list[int]) -> UserSequences:
    """Users whose items are numbered one after the other, from 1."""
    starts = np.cumsum([0, *lengths])
    return UserSequences(np.arange(1, starts[-1] + 1, dtype=np.int32), starts)


several = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@given(several, st.integers(1, 5), st.integers(0, 3))
def test_each_item_but_the_first_is_a_target_once(
    lengths: list[int], length: int, seed: int
) -> None:
    sequences = sequences_of(lengths)
    generator = np.random.default_rng(seed)
    windows = draw_windows(sequences, length, generator)
    assert (windows.lengths >= 1).all()
    assert (windows.lengths <= length).all()
    targets = [
        target
        for start, count in zip(*windows, strict=True)
        for target in range(start + 1, start + 1 + count)
    ]
    expected = [
        row
        for user in range(len(sequences))
        for row in range(sequences.starts[user] + 1, sequences.starts[user + 1])
    ]
    assert sorted(targets) == expected


@given(several, st.integers(1, 8), st.integers(1, 20))
def test_a_target_is_what_comes_next_and_is_not_among_the_inputs(
    lengths: list[int], length: int, tokens: int
) -> None:
    sequences = sequences_of(lengths)
    seen = []
    for batch in window_batches(
        sequences, length, tokens, 0.0, np.random.default_rng(0)
    ):
        items, targets = batch["items"], batch["targets"]
        assert items.shape == targets.shape
        assert items.shape[1] in batch_lengths(length)
        assert items.size <= max(tokens, items.shape[1])
        real = targets != NO_TARGET
        np.testing.assert_array_equal(items != NO_ITEM, real)
        # Items are numbered in the order of time: the next one is 1 more, of
        # the same user, and later than all inputs up to it.
        np.testing.assert_array_equal(targets[real], items[real] + 1)
        assert not np.isin(targets[real], sequences.starts[:-1] + 1).any()
        for row, count in enumerate(real.sum(axis=1)):
            assert real[row, :count].all()
            np.testing.assert_array_equal(
                np.diff(items[row, :count]), np.ones(max(count - 1, 0))
            )
        seen += targets[real].tolist()
    assert len(seen) == len(set(seen)) == sum(max(n - 1, 0) for n in lengths)


def test_a_changed_later_item_changes_no_earlier_input_or_target() -> None:
    sequences = sequences_of([9])
    changed = sequences.items.copy()
    changed[7] = 99
    batches = [
        next(
            window_batches(
                UserSequences(items, sequences.starts),
                20,
                20,
                0.0,
                np.random.default_rng(0),
            )
        )
        for items in (sequences.items, changed)
    ]
    before, after = batches
    for name, place in (("items", 7), ("targets", 6)):
        differ = before[name] != after[name]
        assert np.flatnonzero(differ[0]).tolist() == [place]


def test_inputs_alone_become_unknown() -> None:
    sequences = sequences_of([400] * 5)
    (batch, *_) = window_batches(
        sequences, 400, 4000, 0.25, np.random.default_rng(0)
    )
    real = batch["targets"] != NO_TARGET
    assert (batch["targets"][real] > 0).all()
    share = (batch["items"][real] == 0).mean()
    assert share == pytest.approx(0.25, abs=0.04)
    assert (batch["items"][~real] == NO_ITEM).all()


def test_the_same_seed_gives_the_same_batches() -> None:
    sequences = sequences_of([30, 4, 7, 19])
    drawn = [
        [*window_batches(sequences, 5, 10, 0.1, np.random.default_rng(seed))]
        for seed in (3, 3, 4)
    ]
    same, again, other = (
        np.concatenate([batch["items"].ravel() for batch in batches])
        for batches in drawn
    )
    np.testing.assert_array_equal(same, again)
    assert not np.array_equal(same, other)


@pytest.mark.parametrize("kind", [int, str])
def test_sequences_are_in_the_order_of_time(kind: type) -> None:
    users = pd.Series([LARGE, LARGE + 1, LARGE, LARGE, LARGE + 1]).map(kind)
    items = np.array([5, 1, 4, 3, 2])
    times = np.array([30, 7, 10, 10, 5])
    parts = [slice(0, 2), slice(2, 5)]
    found = UserSequences.of(
        [users[part] for part in parts],
        [items[part] for part in parts],
        [times[part] for part in parts],
    )
    # Rows of the same time are in the order of rows.
    assert [found[user].tolist() for user in (0, 1)] == [[4, 3, 5], [2, 1]]
    by_row = UserSequences.of([users], [items], None)
    assert [by_row[user].tolist() for user in (0, 1)] == [[5, 4, 3], [1, 2]]


def test_rows_without_a_user_are_left_out() -> None:
    users = pd.Series([None, "a", "", "a"], dtype=object)
    found = UserSequences.of([users], [np.arange(4)], None)
    assert len(found) == 1
    assert found[0].tolist() == [1, 3]
