from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.data.datasets.image_pairs import PAIRS
from recsys.data.datasets.image_pairs import authors_pairs
from recsys.data.datasets.image_pairs import balanced_pairs
from recsys.data.datasets.image_pairs import uniform_pairs

seeds = st.integers(0, 2**32 - 1)


@given(num_images=st.integers(2, 40), seed=seeds)
def test_balanced_pairs_have_each_image_twice_at_each_corner(
    num_images: int, seed: int
) -> None:
    first, second = balanced_pairs(num_images, np.random.default_rng(seed))
    assert np.bincount(first).tolist() == [2] * num_images
    assert np.bincount(second).tolist() == [2] * num_images
    assert (first != second).all()


@given(num_images=st.integers(2, 40), seed=seeds)
def test_authors_pairs_have_each_image_twice_at_the_top_left(
    num_images: int, seed: int
) -> None:
    first, second = authors_pairs(num_images, np.random.default_rng(seed))
    assert first.tolist() == np.repeat(np.arange(num_images), 2).tolist()
    assert (first != second).all()
    assert 0 <= second.min() <= second.max() < num_images


@given(num_images=st.integers(2, 40), seed=seeds)
def test_uniform_pairs_are_of_different_images(
    num_images: int, seed: int
) -> None:
    first, second = uniform_pairs(num_images, np.random.default_rng(seed))
    assert len(first) == len(second) == 2 * num_images
    assert (first != second).all()
    for images in (first, second):
        assert 0 <= images.min() <= images.max() < num_images


@pytest.mark.parametrize("name", PAIRS)
def test_each_pair_is_equally_likely(name: str) -> None:
    """Of 3 images, 10,000 times: 6 ordered pairs, 60,000 in all."""
    generator = np.random.default_rng(0)
    counts = np.zeros((3, 3), int)
    for _ in range(10_000):
        np.add.at(counts, PAIRS[name](3, generator), 1)
    assert counts.sum() == 60_000
    # A derangement of 3 images is one of two, and decides all three pairs:
    # six standard deviations of two such draws, ten thousand times.
    for pair in permutations(range(3), 2):
        assert abs(counts[pair] - 10_000) < 550


def test_all_derangements_are_equally_likely() -> None:
    """There are 9 of 4 images."""
    generator = np.random.default_rng(0)
    found: dict[tuple[int, ...], int] = {}
    for _ in range(9_000):
        _, second = balanced_pairs(4, generator)
        order = tuple(second[::2].tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 9
    # Six standard deviations of a binomial count around 1,000.
    assert all(abs(count - 1_000) < 180 for count in found.values())


@pytest.mark.parametrize("name", ["authors", "uniform"])
def test_the_last_image_is_chosen_as_well(name: str) -> None:
    """The published code never does."""
    _, second = PAIRS[name](10, np.random.default_rng(0))
    drawn = [PAIRS[name](10, np.random.default_rng(s))[1] for s in range(50)]
    assert 9 in np.concatenate([second, *drawn])
