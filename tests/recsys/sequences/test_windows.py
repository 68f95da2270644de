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
from recsys.sequences.windows import of_user
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
        for start, count in zip(windows.starts, windows.lengths, strict=True)
        for target in range(start + 1, start + 1 + count)
    ]
    expected = [
        row
        for user in range(len(sequences))
        for row in range(sequences.starts[user] + 1, sequences.starts[user + 1])
    ]
    assert sorted(targets) == expected
    begins, ends = sequences.starts[:-1], sequences.starts[1:]
    assert (windows.starts >= begins[windows.users]).all()
    assert (windows.starts + windows.lengths < ends[windows.users]).all()


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


def test_a_window_has_the_features_of_its_user() -> None:
    lengths = [9, 0, 4, 30]
    features = {
        "age": np.array([1, 2, 3, 4], np.int32),
        "likes": np.array([[1, -1], [2, 2], [-1, -1], [3, 4]], np.int32),
        "face": np.arange(8, dtype=np.float32).reshape(4, 2),
    }
    plain = sequences_of(lengths)
    sequences = UserSequences(plain.items, plain.starts, features)
    users = np.repeat(np.arange(4), lengths)
    for batch in window_batches(
        sequences, 5, 20, 0.0, np.random.default_rng(0)
    ):
        there = batch["targets"][:, 0] != NO_TARGET
        owners = users[batch["items"][there, 0] - 1]
        for name, values in features.items():
            of_users = batch[of_user(name)]
            assert len(of_users) == len(batch["items"])
            np.testing.assert_array_equal(of_users[there], values[owners])


def test_windows_are_as_of_unknown_users_now_and_then() -> None:
    plain = sequences_of([4] * 500)
    features = {
        "age": np.full(500, 7, np.int32),
        "likes": np.full((500, 2), 7, np.int32),
        "face": np.full((500, 2), 7, np.float32),
    }
    sequences = UserSequences(plain.items, plain.starts, features)
    (batch, *_) = window_batches(
        sequences, 4, 2000, 0.25, np.random.default_rng(0)
    )
    known = batch[of_user("age")] == 7
    assert 1 - known.mean() == pytest.approx(0.25, abs=0.06)
    for name, nothing in (("age", 0), ("likes", -1), ("face", 0)):
        of_users = batch[of_user(name)]
        assert (of_users[known] == 7).all()
        assert (of_users[~known] == nothing).all()


@pytest.mark.parametrize("kind", [int, str])
def test_features_are_those_of_the_first_row_of_a_user(kind: type) -> None:
    first, second = kind(LARGE), kind(LARGE + 2)
    users = pd.Series([first, None, first, second], dtype=object)
    if kind is int:
        users = users.astype("Int64")
    ages = np.array([5, 6, 7, 8])
    likes = [np.array([[1], [2]]), np.array([[3, 4], [5, -1]])]
    parts = [slice(0, 2), slice(2, 4)]
    found = UserSequences.of(
        [users[part] for part in parts],
        [np.arange(2), np.arange(2)],
        None,
        {"age": [ages[part] for part in parts], "likes": likes},
    )
    assert found.features["age"].tolist() == [5, 8]
    assert found.features["likes"].tolist() == [[1, -1], [5, -1]]


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
