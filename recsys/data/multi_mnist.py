from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from recsys.data.error import DataError
from recsys.data.image_dataset import ImageDataset
from recsys.data.images import Images
from recsys.data.mnist import CLASSES
from recsys.data.mnist import read_mnist
from recsys.data.schema import Schema

SHIFT = 4  # Pixels from the middle of the canvas, in each direction.
EXAMPLES_A_SOURCE = 2  # 50,000 / 10,000 / 10,000 images give twice as many.
TASKS = ("top_left", "bottom_right")


@dataclass(frozen=True)
class MultiMNIST:
    """Prepares MNIST, or what has its form, as two tasks on one image.

    Each example overlays two different images of the same split, drawn
    uniformly: task `top_left` is the class of the one, `bottom_right` that of
    the other. The whole download gives 100,000, 20,000 and 20,000 examples
    from disjoint images.

    Args:
        name: Name of the data set.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        section 4.2.
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, supplement S1.1.
    """

    name: str

    def __call__(
        self, raw_dir: Path, seed: int, progress: Progress
    ) -> ImageDataset:
        """Reads the download and builds the data set.

        Args:
            raw_dir: Folder of the four idx files.
            seed: Seed of the pairs. Which images a split draws from does not
                depend on it.
            progress: Shows how many splits are done.

        Returns:
            The data set.

        Raises:
            DataError: The download is missing or broken.
        """
        sources = read_mnist(raw_dir, self.name)
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
            splits[split] = _overlaid(images, generator)
        return ImageDataset(schema, splits, dict.fromkeys(TASKS, CLASSES))


def draw_pairs(
    num_images: int, size: int, generator: np.random.Generator
) -> tuple[Any, Any]:
    """Draws pairs of different images, each ordered pair equally likely.

    Args:
        num_images: How many images to draw from, at least 2.
        size: How many pairs to draw.
        generator: What to draw with.

    Returns:
        The numbers of the first and of the second images, arrays `(size,)`.

    Example:
    >>> first, second = draw_pairs(2, 4, np.random.default_rng(0))
    >>> (first + second).tolist()
    [1, 1, 1, 1]
    """
    first = generator.integers(0, num_images, size)
    distance = generator.integers(1, num_images, size)
    return first, (first + distance) % num_images


def overlay(first: Any, second: Any) -> Any:
    """Shifts images 4 pixels to two opposite corners, and adds them up.

    The canvas is as much larger that both fit on it: 36 x 36 pixels for two
    images of 28 x 28. Sums above 255, the largest value of a pixel, become
    255.

    Args:
        first: uint8 images `(rows, height, width, channels)` for the top left.
        second: As many for the bottom right.

    Returns:
        uint8 images `(rows, height + 8, width + 8, channels)`.

    Example:
    >>> image = np.full((1, 28, 28, 1), 200, np.uint8)
    >>> canvas = overlay(image, image)[0, ..., 0]
    >>> canvas.shape, canvas[[0, 27, 28], [0, 27, 27]].tolist()
    ((36, 36), [200, 255, 200])
    """
    room = 2 * SHIFT
    canvas = np.pad(first, ((0, 0), (0, room), (0, room), (0, 0)))
    below = canvas[:, room:, room:]
    below += np.minimum(second, 255 - below)
    return canvas


def _overlaid(images: Images, generator: np.random.Generator) -> Images:
    size = EXAMPLES_A_SOURCE * len(images)
    pairs = [
        images.take(rows) for rows in draw_pairs(len(images), size, generator)
    ]
    pixels = overlay(*(image.pixels for image in pairs))
    labels = (image["class"] for image in pairs)
    return Images.of(pixels, dict(zip(TASKS, labels, strict=True)))
