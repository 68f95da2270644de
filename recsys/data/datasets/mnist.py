"""The files of MNIST and of what is published in its form."""

from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_file
from recsys.data.formats.idx_file import read_idx
from recsys.data.image_dataset import Images
from recsys.errors import DataError

SIDE = 28
CLASSES = 10
PUBLISHED = {"training images": 60_000, "test images": 10_000}
_IMAGES, _LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"


def read_mnist(raw_dir: Path, name: str) -> dict[str, Images]:
    """Reads MNIST or Fashion-MNIST with the end of the file for validation.

    The last sixth of the training file is the validation split: 50,000,
    10,000 and 10,000 images of the whole download.

    Args:
        raw_dir: Folder of the files, as for `read_mnist_files`.
        name: Name of the data set, for the note about a subset.

    Returns:
        The splits, images `(rows, 28, 28, 1)` with a task "class".

    Raises:
        DataError: A file is missing or broken.
    """
    train, test = read_mnist_files(raw_dir, name)
    rest = len(train) - len(train) // 6
    return {
        "train": train.take(slice(rest)),
        "validation": train.take(slice(rest, None)),
        "test": test,
    }


def read_shuffled_mnist(raw_dir: Path, name: str) -> dict[str, Images]:
    """Reads MNIST or Fashion-MNIST split as the code of the COMET paper does.

    A sixth of the training file is the validation split: always the same one,
    with the same share of each class as the file. A part of the download that
    is too small for such shares is split without them.

    Args:
        raw_dir: Folder of the files, as for `read_mnist_files`.
        name: Name of the data set, for the note about a subset.

    Returns:
        The splits, images `(rows, 28, 28, 1)` with a task "class".

    Raises:
        DataError: A file is missing or broken.

    References:
        `generate_mnist_dataset.py` of the code that is published with Ibrahim
        et al., COMET, KDD 2023.
    """
    train, test = read_mnist_files(raw_dir, name)
    rows, size = np.arange(len(train)), len(train) // 6
    rest, held_out = rows, rows[:0]
    if size:
        labels = train["class"]
        counts = labels.value_counts()
        fits = counts.min() > 1 and len(counts) <= size
        rest, held_out = train_test_split(
            rows,
            test_size=size,
            stratify=labels if fits else None,
            random_state=0,
        )
    return {
        "train": train.take(rest),
        "validation": train.take(held_out),
        "test": test,
    }


def read_mnist_files(raw_dir: Path, name: str) -> tuple[Images, Images]:
    """Reads the four idx files of MNIST or Fashion-MNIST.

    A training file of another size than the published one is taken as a
    subset.

    Args:
        raw_dir: Folder of `train-images-idx3-ubyte`, `train-labels-...` and
            the same two of `t10k`, with or without `.gz`.
        name: Name of the data set, for the note about a subset.

    Returns:
        The images of the training and of the test file.

    Raises:
        DataError: A file is missing or broken.
    """
    train, test = _read(raw_dir, "train"), _read(raw_dir, "t10k")
    counts = {"training images": len(train), "test images": len(test)}
    check_release(name, raw_dir, counts, PUBLISHED)
    return train, test


def _read(raw_dir: Path, part: str) -> Images:
    file, labels_file = (
        find_file(raw_dir, f"{part}-{kind}.gz", f"{part}-{kind}")
        for kind in (_IMAGES, _LABELS)
    )
    pixels, labels = read_idx(file, 3), read_idx(labels_file, 1)
    if pixels.shape[1:] != (SIDE, SIDE):
        raise DataError.at(
            file, f"images of {(SIDE, SIDE)}", f"of {pixels.shape[1:]}"
        )
    if len(labels) != len(pixels):
        raise DataError.at(
            labels_file, f"{len(pixels)} labels", f"{len(labels)}"
        )
    if (labels >= CLASSES).any():
        raise DataError.at(
            labels_file, f"labels below {CLASSES}", f"{labels.max()}"
        )
    return Images.of(pixels[..., None], {"class": labels})
