import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.negative_draws import UnseenItems


def unseen(pairs: list[tuple[int, int]], weights: list[int]) -> UnseenItems:
    users, items = np.array(pairs, np.int64).T
    return UnseenItems(users, items, np.array(weights))


def test_one_item_is_left() -> None:
    draws = unseen([(0, 0), (0, 2), (1, 1)], [1, 1, 1])
    rng = np.random.default_rng(0)
    assert draws.draw(np.array([0]), 2, rng).tolist() == [[1, -1]]
    assert sorted(draws.draw(np.array([1]), 2, rng)[0].tolist()) == [0, 2]


def test_nothing_is_left() -> None:
    draws = unseen([(0, 0), (0, 1), (1, 0)], [1, 1])
    drawn = draws.draw(np.array([0, 1]), 1, np.random.default_rng(0))
    assert drawn.tolist() == [[-1], [1]]


def test_of_no_rows_nothing_is_drawn() -> None:
    drawn = unseen([(0, 0)], [1, 1]).draw(
        np.zeros(0, np.int64), 3, np.random.default_rng(0)
    )
    assert drawn.shape == (0, 3)


@given(
    pairs=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=20
    ),
    weights=st.lists(st.integers(0, 3), min_size=6, max_size=6),
    count=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_each_draw_is_new_to_its_user(
    pairs: list[tuple[int, int]], weights: list[int], count: int, seed: int
) -> None:
    users = np.array([user for user, _ in pairs])
    rng = np.random.default_rng(seed)
    drawn = unseen(pairs, weights).draw(users, count, rng)
    for user, row in zip(users, drawn, strict=True):
        had = {item for owner, item in pairs if owner == user}
        left = set(np.flatnonzero(weights)) - had
        items = row[row >= 0]
        assert set(items) <= left
        assert len(items) == len(set(items)) == min(count, len(left))
        assert (row[len(items) :] == -1).all()


def test_items_are_drawn_by_their_weights() -> None:
    """Items 1 and 3 are had; 10 tickets are left, 6 once item 4 is drawn."""
    draws = unseen([(0, 1), (0, 3)], [1, 5, 2, 0, 4, 3])
    rows = np.zeros(40_000, np.int64)
    first, second = draws.draw(rows, 2, np.random.default_rng(0)).T
    shares = np.bincount(first, minlength=6) / len(rows)
    expected = [0.1, 0, 0.2, 0, 0.4, 0.3]
    np.testing.assert_allclose(shares, expected, atol=0.01)
    then = second[first == 4]
    shares = np.bincount(then, minlength=6) / len(then)
    np.testing.assert_allclose(
        shares, [1 / 6, 0, 1 / 3, 0, 0, 1 / 2], atol=0.02
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides(seed: int) -> None:
    draws = unseen([(0, 0)], [1] * 50)
    rows = np.zeros(9, np.int64)
    some, again, other = (
        draws.draw(rows, 3, np.random.default_rng(number))
        for number in (seed, seed, seed + 1)
    )
    assert some.tolist() == again.tolist()
    assert some.tolist() != other.tolist()
