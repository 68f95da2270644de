"""Numbers of the images to combine on one canvas."""

from collections.abc import Callable

import numpy as np

Pairs = tuple[np.ndarray, np.ndarray]
DrawPairs = Callable[[int, np.random.Generator], Pairs]

PAIRS_AN_IMAGE = 2  # 50,000 / 10,000 / 10,000 images give twice as many.


def balanced_pairs(num_images: int, generator: np.random.Generator) -> Pairs:
    """Pairs each image with two others, so that each is chosen twice as well.

    The second images of the first pairs of all images are a permutation that
    leaves none where it is, each such permutation being equally likely; so
    are those of the second pairs.

    Args:
        num_images: How many images there are, at least 2.
        generator: What to draw with.

    Returns:
        The numbers of the first and of the second images of the pairs, arrays
        `(2 * num_images,)`: those of each first image stand together.

    Example:
    >>> first, second = balanced_pairs(5, np.random.default_rng(0))
    >>> first.tolist(), sorted(second.tolist())
    ([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
    >>> bool((first == second).any())
    False
    """
    first = np.arange(num_images)
    rounds = [
        _derangement(num_images, generator) for _ in range(PAIRS_AN_IMAGE)
    ]
    return (
        np.repeat(first, PAIRS_AN_IMAGE),
        np.stack(rounds, axis=1).reshape(-1),
    )


def authors_pairs(num_images: int, generator: np.random.Generator) -> Pairs:
    """Pairs each image with two others, which are drawn uniformly.

    The published code draws so, but for one mistake: it never chooses the
    last image (for the last one: the last but one).

    Args, Returns: As `balanced_pairs`.

    Example:
    >>> first, second = authors_pairs(2, np.random.default_rng(0))
    >>> first.tolist(), second.tolist()
    ([0, 0, 1, 1], [1, 1, 0, 0])
    """
    first = np.repeat(np.arange(num_images), PAIRS_AN_IMAGE)
    return first, _others(first, num_images, generator)


def uniform_pairs(num_images: int, generator: np.random.Generator) -> Pairs:
    """Draws pairs of different images, each ordered pair equally likely.

    Args, Returns: As `balanced_pairs`; but first images come in any order.

    Example:
    >>> first, second = uniform_pairs(2, np.random.default_rng(0))
    >>> (first + second).tolist()
    [1, 1, 1, 1]
    """
    size = PAIRS_AN_IMAGE * num_images
    first = generator.integers(0, num_images, size)
    return first, _others(first, num_images, generator)


def _derangement(num_images: int, generator: np.random.Generator) -> np.ndarray:
    """A permutation without a fixed point: more than 1 in 3 are, from 4 on."""
    while True:
        order = generator.permutation(num_images)
        if (order != np.arange(num_images)).all():
            return order


def _others(
    first: np.ndarray, num_images: int, generator: np.random.Generator
) -> np.ndarray:
    """For each image another one, drawn uniformly."""
    distance = generator.integers(1, num_images, len(first))
    return (first + distance) % num_images


PAIRS: dict[str, DrawPairs] = {
    "balanced": balanced_pairs,
    "authors": authors_pairs,
    "uniform": uniform_pairs,
}
