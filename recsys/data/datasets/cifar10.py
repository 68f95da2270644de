from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from recsys.data.datasets.download import check_release
from recsys.data.formats.packed_file import read_packed
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.errors import DataError

CLASSES = 10
CHANNELS, SIDE = 3, 32
RECORD = 1 + CHANNELS * SIDE * SIDE  # Bytes: the label, then the pixels.
FOLDER = "cifar-10-batches-bin"  # What the published archive unpacks to.


def cifar10(raw_dir: Path, seed: int, progress: Progress) -> ImageDataset:
    """Prepares CIFAR-10 from its binary version.

    A tenth of the training images, drawn at random, is the validation split:
    45,000, 5,000 and 10,000 images of the whole download. Missing batches
    make it a subset.

    Args:
        raw_dir: Folder of `data_batch_1.bin`, ... and `test_batch.bin`, or of
            the folder `cifar-10-batches-bin` with them. A file may be packed
            (`.bin.gz`, `.bin.xz`), and its name go on before `.bin`.
        seed: Seed of the draw.
        progress: Shows how many files are read.

    Returns:
        The data set: images `(32, 32, 3)`, one task "class".

    Raises:
        DataError: There is no such file, or one is broken.

    References:
        Krizhevsky. Learning Multiple Layers of Features from Tiny Images.
        Technical report, University of Toronto, 2009.
    """
    read = {
        part: np.concatenate(
            [
                _read(file)
                for file in progress.track(
                    _files(raw_dir, part), description=f"Reading {part}"
                )
            ]
        )
        for part in ("data_batch", "test_batch")
    }
    rest, test = map(_images, read.values())
    counts = {"images": len(rest) + len(test)}
    check_release("cifar10", raw_dir, counts, {"images": 60_000})
    order = np.random.default_rng(seed).permutation(len(rest))
    start = len(rest) - len(rest) // 10
    splits = {
        "train": rest.take(order[:start]),
        "validation": rest.take(order[start:]),
        "test": test,
    }
    schema = Schema("cifar10", {"image": "image"}, {"class": "multiclass"})
    return ImageDataset(schema, splits, {"class": CLASSES})


def _files(raw_dir: Path, part: str) -> list[Path]:
    if not raw_dir.is_dir():
        raise DataError.at(raw_dir, "the folder of the download", "no folder")
    for folder in (raw_dir, raw_dir / FOLDER):
        if files := sorted(folder.glob(f"{part}*.bin*")):
            # One that is there packed and unpacked is read once.
            return list({f.name.split(".")[0]: f for f in files}.values())
    raise DataError.at(raw_dir, f"files {part}*.bin", "none of them")


def _read(file: Path) -> npt.NDArray[np.uint8]:
    """Returns the records of a file, uint8 `(rows, 3073)`."""
    content = read_packed(file)
    if not content or len(content) % RECORD:
        raise DataError.at(
            file, f"records of {RECORD} bytes", f"{len(content)} bytes"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    wrong = np.flatnonzero(records[:, 0] >= CLASSES)
    if len(wrong):
        raise DataError.at(
            file,
            f"a label below {CLASSES}",
            str(records[wrong[0], 0]),
            row=int(wrong[0]) + 1,
        )
    return records


def _images(records: npt.NDArray[np.uint8]) -> Images:
    planes = records[:, 1:].reshape(-1, CHANNELS, SIDE, SIDE)
    pixels = np.ascontiguousarray(np.moveaxis(planes, 1, -1))
    return Images.of(pixels, {"class": records[:, 0]})
