"""Labelled images of the published downloads, ready to be trained on."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import Progress

from recsys.data.datasets.cifar10 import cifar10
from recsys.data.datasets.svhn import read_svhn
from recsys.data.image_dataset import Images
from studies.cifar100 import read_cifar100
from studies.tiny_imagenet import read_tiny_imagenet


@dataclass(frozen=True)
class ImageData:
    """Images of two splits, in numbers that a network can take.

    Attributes:
        train: Float32 array `(rows, height, width, channels)`. Each channel
            has mean 0 and standard deviation 1 over this split.
        train_labels: Integers `(rows,)`, classes from 0.
        test: As `train`, in the same units.
        test_labels: Integers `(rows,)`.
        num_classes: How many classes there are, in the whole download.
        is_published: Whether both splits are as large as the published ones.
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    num_classes: int
    is_published: bool

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Height, width and channels."""
        return self.train.shape[1:]


@dataclass(frozen=True)
class _Download:
    """How a download is read, and what it holds."""

    read: Callable[[Path], tuple[Images, Images]]
    num_classes: int
    sizes: tuple[int, int]  # Images for training and for test.


def _read_cifar10(folder: Path) -> tuple[Images, Images]:
    """All training images, those of `recsys`'s validation split among them."""
    dataset = cifar10(folder, seed=0, progress=Progress(disable=True))
    parts = [dataset.split(name) for name in ("train", "validation")]
    labels = np.concatenate([part["class"] for part in parts])
    pixels = np.concatenate([part.pixels for part in parts])
    return Images.of(pixels, {"class": labels}), dataset.split("test")


def _read_svhn(folder: Path) -> tuple[Images, Images]:
    train, test = (
        read_svhn(folder, part, "svhn") for part in ("train", "test")
    )
    return train, test


DOWNLOADS = {
    "svhn": _Download(_read_svhn, 10, (73_257, 26_032)),
    "cifar-10": _Download(_read_cifar10, 10, (50_000, 10_000)),
    "cifar-100": _Download(read_cifar100, 100, (50_000, 10_000)),
    "tiny-imagenet": _Download(read_tiny_imagenet, 200, (100_000, 10_000)),
}


def read_images(
    name: str, folder: Path, most_rows: int | None = None, seed: int = 0
) -> ImageData:
    """Reads a download and standardises it by channel.

    Args:
        name: `"svhn"`, `"cifar-10"`, `"cifar-100"` or `"tiny-imagenet"`.
        folder: The folder of its published files.
        most_rows: Optional integer: at most this many images of each split,
            drawn at random.
        seed: Seed of that draw.

    Raises:
        FileError: A file is missing or broken.
        ValueError: There is no download of this name.
    """
    if name not in DOWNLOADS:
        raise ValueError(
            f"`name` must be one of {sorted(DOWNLOADS)}. Received: {name!r}"
        )
    download = DOWNLOADS[name]
    splits = download.read(folder)
    if most_rows is not None:
        splits = (
            splits[0].sample(most_rows, random_state=seed),
            splits[1].sample(most_rows, random_state=seed),
        )
    train, test = (split.pixels.astype("float32") for split in splits)
    mean = train.mean(axis=(0, 1, 2), dtype="float64").astype("float32")
    # A channel that never changes stays at 0.
    deviation = np.maximum(train.std(axis=(0, 1, 2)), 1e-6)
    labels = [split.labels.iloc[:, 0].to_numpy() for split in splits]
    return ImageData(
        train=(train - mean) / deviation,
        train_labels=labels[0],
        test=(test - mean) / deviation,
        test_labels=labels[1],
        num_classes=download.num_classes,
        is_published=(len(train), len(test)) == download.sizes,
    )
