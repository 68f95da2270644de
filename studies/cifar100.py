from pathlib import Path

import numpy as np

from recsys.data.datasets.download import find_file
from recsys.data.formats.packed_file import read_packed
from recsys.data.image_dataset import Images
from recsys.errors import DataError

FOLDER = "cifar-100-binary"  # What the published archive unpacks to.
COARSE_CLASSES, CLASSES = 20, 100
CHANNELS, SIDE = 3, 32
RECORD = 2 + CHANNELS * SIDE * SIDE  # Bytes: both labels, then the pixels.


def read_cifar100(folder: Path) -> tuple[Images, Images]:
    """Reads CIFAR-100 from its binary version.

    Args:
        folder: Folder of `train.bin` and `test.bin`, or of the folder
            `cifar-100-binary` with them. A file may be packed (`.bin.gz`,
            `.bin.xz`).

    Returns:
        Training and test images `(32, 32, 3)`, labelled by their fine
        "class", 0 to 99: 50,000 and 10,000 of the whole download.

    Raises:
        DataError: A file is missing or broken.

    References:
        Krizhevsky. Learning Multiple Layers of Features from Tiny Images.
        Technical report, University of Toronto, 2009.
    """
    return _read_part(folder, "train"), _read_part(folder, "test")


def _read_part(folder: Path, part: str) -> Images:
    names = (f"{part}.bin", f"{part}.bin.gz", f"{part}.bin.xz")
    inner_names = (f"{FOLDER}/{name}" for name in names)
    file = find_file(folder, *names, *inner_names)
    content = read_packed(file)
    if not content or len(content) % RECORD:
        raise DataError.at(
            file, f"records of {RECORD} bytes", f"{len(content)} bytes"
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    _check_labels(records, file)
    # Planes (rows, 3, 32, 32) to channels last.
    planes = records[:, 2:].reshape(-1, CHANNELS, SIDE, SIDE)
    pixels = np.ascontiguousarray(np.moveaxis(planes, 1, -1))
    return Images.of(pixels, {"class": records[:, 1]})


def _check_labels(records: np.ndarray, file: Path) -> None:
    for column, limit in enumerate((COARSE_CLASSES, CLASSES)):
        wrong = np.flatnonzero(records[:, column] >= limit)
        if len(wrong):
            raise DataError.at(
                file,
                f"a label below {limit}",
                str(records[wrong[0], column]),
                row=int(wrong[0]) + 1,
                column=("coarse", "fine")[column],
            )
