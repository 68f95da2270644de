from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import Progress

from recsys.data.datasets.mnist import CLASSES
from recsys.data.datasets.mnist import read_shuffled_mnist
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.choices import check_choice

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


SHIFT = 4  # Pixels from the middle of the canvas, in each direction.
TASKS = ("top_left", "bottom_right")


@dataclass(frozen=True)
class MultiMNIST:
    """Prepares MNIST, or what has its form, as two tasks on one image.

    Each example is the sum of two different images of the same split: task
    `top_left` is the class of the one, `bottom_right` that of the other. The
    whole download gives 100,000, 20,000 and 20,000 examples from disjoint
    images.

    The papers say that both images of an example are drawn uniformly. The
    published code of COMET has each image of a split at the top left twice,
    with two others that are drawn for it. Here, by default, each is
    at the bottom right twice as well, so that no image counts more than
    another. Sums are those of the published code: not clipped.

    Args:
        name: Name of the data set.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        section 4.2.
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, supplement S1.1, and
        `generate_mnist_dataset.py` of the published code.
    """

    name: str

    def __call__(
        self,
        raw_dir: Path,
        seed: int,
        progress: Progress,
        pairs: str = "balanced",
    ) -> ImageDataset:
        """Reads the download and builds the data set.

        Args:
            raw_dir: Folder of the four idx files.
            seed: Seed of the pairs. Which images a split draws from does not
                depend on it.
            progress: Shows how many splits are done.
            pairs: Draws of the pairs: "balanced" (each image twice at each
                corner), "authors" (twice at the top left, with two others
                that are drawn uniformly, as in the published code) or
                "uniform" (both drawn uniformly, as the papers say).

        Returns:
            The data set.

        Raises:
            DataError: The download is missing or broken.
            ValueError: `pairs` is unknown.
        """
        check_choice("pairs", pairs, PAIRS)
        sources = read_shuffled_mnist(raw_dir, self.name)
        schema = Schema(
            self.name, {"image": "image"}, dict.fromkeys(TASKS, "multiclass")
        )
        generator = np.random.default_rng(seed)
        splits = {}
        for split, images in progress.track(
            sources.items(), description="Overlaying images"
        ):
            if len(images) < 2:
                raise DataError.at(
                    raw_dir, f"two {split} images", f"{len(images)}"
                )
            splits[split] = _overlaid(images, PAIRS[pairs], generator)
        return ImageDataset(schema, splits, dict.fromkeys(TASKS, CLASSES))


def overlay(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Shifts images 4 pixels to two opposite corners, and adds them up.

    The canvas is as much larger that both fit on it: 36 x 36 pixels for two
    images of 28 x 28. Sums are up to 510, twice the value of a white pixel.

    Args:
        first: uint8 images `(rows, height, width, channels)` for the top left.
        second: As many for the bottom right.

    Returns:
        uint16 images `(rows, height + 8, width + 8, channels)`.

    Example:
    >>> image = np.full((1, 28, 28, 1), 200, np.uint8)
    >>> canvas = overlay(image, image)[0, ..., 0]
    >>> canvas.shape, canvas[[0, 27, 28], [0, 27, 27]].tolist()
    ((36, 36), [200, 400, 200])
    """
    room = 2 * SHIFT
    margins = ((0, 0), (0, room), (0, room), (0, 0))
    canvas = np.pad(first.astype(np.uint16), margins)
    canvas[:, room:, room:] += second
    return canvas


def _overlaid(
    images: Images,
    draw_pairs: DrawPairs,
    generator: np.random.Generator,
) -> Images:
    pairs = [images.take(rows) for rows in draw_pairs(len(images), generator)]
    pixels = overlay(*(image.pixels for image in pairs))
    labels = (image["class"] for image in pairs)
    return Images.of(pixels, dict(zip(TASKS, labels, strict=True)))
