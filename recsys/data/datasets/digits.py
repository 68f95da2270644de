from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from recsys.data.datasets.mnist import CLASSES
from recsys.data.datasets.mnist import SIDE
from recsys.data.datasets.mnist import read_mnist
from recsys.data.datasets.svhn import SHAPE
from recsys.data.datasets.svhn import SIZES
from recsys.data.datasets.svhn import read_svhn
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS

if TYPE_CHECKING:
    import pandas as pd

HELD_OUT = 75_000  # SVHN images in the validation, and in the test split.


def digits(raw_dir: Path, seed: int, progress: Progress) -> ImageDataset:
    """Prepares the mixture of MNIST and SVHN: which digit is it?

    All 630,420 images of SVHN's three files are shuffled and divided into
    480,420 for training, 75,000 for validation and 75,000 for test; a subset
    in the same shares. MNIST adds 50,000, 10,000 and 10,000.

    The paper does not say how the two become alike. Here SVHN stays as it is,
    32 x 32 pixels in colour, and MNIST is brought to it without resampling:
    a black margin of 2 pixels, and the grey value in all three channels.

    Args:
        raw_dir: Folder of the idx files of MNIST and the `.mat` files of SVHN.
        seed: Seed of the division of SVHN.
        progress: Shows how many of SVHN's files are read.

    Returns:
        The data set: images `(32, 32, 3)`, one task "digit".

    Raises:
        DataError: A file is missing or broken.

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, supplement S1.1.
    """
    mnist = read_mnist(raw_dir, "digits")
    files = [
        read_svhn(raw_dir, part, "digits")
        for part in progress.track(SIZES, description="Reading images")
    ]
    svhn = _joined([(part.pixels, part["digit"]) for part in files])
    order = np.random.default_rng(seed).permutation(len(svhn))
    ends = np.cumsum(sizes(len(svhn)))[:-1]
    splits = {
        name: _joined(
            [
                (in_colour(mnist[name].pixels), mnist[name]["class"]),
                (svhn.pixels[rows], svhn["digit"].iloc[rows]),
            ]
        )
        for name, rows in zip(SPLITS, np.split(order, ends), strict=True)
    }
    schema = Schema("digits", {"image": "image"}, {"digit": "multiclass"})
    return ImageDataset(schema, splits, {"digit": CLASSES})


def sizes(num_images: int) -> list[int]:
    """Number of SVHN's images per split.

    Example:
    >>> sizes(630_420)
    [480420, 75000, 75000]
    """
    held_out = num_images * HELD_OUT // sum(SIZES.values())
    return [num_images - 2 * held_out, held_out, held_out]


def in_colour(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Brings images of MNIST to the form of SVHN's, without resampling.

    Args:
        pixels: uint8 `(rows, 28, 28, 1)`.

    Returns:
        uint8 `(rows, 32, 32, 3)`.

    Example:
    >>> in_colour(np.ones((1, 28, 28, 1), np.uint8))[0, 1:3, 2].tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    height, width, _ = SHAPE
    top, left = (height - SIDE) // 2, (width - SIDE) // 2
    coloured = np.zeros((len(pixels), *SHAPE), np.uint8)
    coloured[:, top : top + SIDE, left : left + SIDE] = pixels
    return coloured


def _joined(parts: "list[tuple[np.ndarray, pd.Series]]") -> Images:
    pixels, labels = zip(*parts, strict=True)
    return Images.of(np.concatenate(pixels), {"digit": np.concatenate(labels)})
