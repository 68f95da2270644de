"""The cropped digits of Street View House Numbers."""

from pathlib import Path

import numpy as np
from rich.progress import Progress

from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_file
from recsys.data.datasets.mnist import CLASSES
from recsys.data.formats.mat_file import read_mat
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.shown import shown

SHAPE = (32, 32, 3)
VALIDATION_ROWS = 50_000
SIZES = {"train": 73_257, "test": 26_032, "extra": 531_131}


def svhn(raw_dir: Path, seed: int, progress: Progress) -> ImageDataset:
    """Prepares SVHN with its own training and test images.

    50,000 of the additional images, drawn at random, are the validation
    split; all of them where there are fewer.

    Args:
        raw_dir: Folder of `train_32x32.mat`, `test_32x32.mat` and
            `extra_32x32.mat`.
        seed: Seed of the draw.
        progress: Shows how many files are read.

    Returns:
        The data set: images `(32, 32, 3)`, one task "digit".

    Raises:
        DataError: A file is missing or broken.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, supplement S6.1.
    """
    train, extra, test = (
        read_svhn(raw_dir, part, "svhn")
        for part in progress.track(
            ("train", "extra", "test"), description="Reading images"
        )
    )
    size = min(VALIDATION_ROWS, len(extra))
    validation = extra.sample(size, random_state=seed)
    schema = Schema("svhn", {"image": "image"}, {"digit": "multiclass"})
    splits = {"train": train, "validation": validation, "test": test}
    return ImageDataset(schema, splits, {"digit": CLASSES})


def read_svhn(raw_dir: Path, part: str, name: str) -> Images:
    """Reads one of the MATLAB files with cropped digits.

    Args:
        raw_dir: Folder of the files.
        part: `"train"`, `"test"` or `"extra"`.
        name: Name of the data set, for the note about a subset.

    Returns:
        Images `(rows, 32, 32, 3)` with a task "digit".

    Raises:
        DataError: The file is missing or broken.
    """
    file = find_file(raw_dir, f"{part}_32x32.mat")
    arrays = read_mat(file, ("X", "y"))
    pixels, labels = arrays["X"], arrays["y"].ravel()
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != SHAPE:
        raise DataError.at(
            file,
            f"uint8 images ({', '.join(map(str, SHAPE))}, rows)",
            f"{pixels.dtype} {pixels.shape}",
            column="X",
        )
    rows = pixels.shape[-1]
    if not rows:
        raise DataError.at(file, "at least one image", "none", column="X")
    if len(labels) != rows or not np.isin(labels, range(1, 11)).all():
        raise DataError.at(
            file,
            f"{rows} labels 1 to 10",
            f"{len(labels)} labels {shown(labels[:6].tolist())}",
            column="y",
        )
    check_release(name, file, {"images": rows}, {"images": SIZES[part]})
    # (height, width, channels, rows) to rows first; 10 stands for the digit 0.
    return Images.of(
        np.ascontiguousarray(np.moveaxis(pixels, -1, 0)), {"digit": labels % 10}
    )
