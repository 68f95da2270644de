import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.progress import Progress

from recsys.data.datasets.download import check_release
from recsys.data.datasets.download import find_file
from recsys.data.formats.packed_file import read_packed
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.bounds import check_count
from recsys.errors.reading import check_fits
from recsys.errors.reading import reading
from recsys.errors.shown import shown

FOLDER = "img_align_celeba"
FORMATS = ("JPEG", "PNG")  # What is published; Pillow knows riskier ones.
# The most even ones, by their share of the faces: 51 % down to 28 %.
ATTRIBUTES = [
    "Attractive",
    "Mouth_Slightly_Open",
    "Smiling",
    "Wearing_Lipstick",
    "High_Cheekbones",
    "Male",
    "Heavy_Makeup",
    "Wavy_Hair",
    "Oval_Face",
    "Pointy_Nose",
]
ATTRIBUTE_LIST, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"


def celeba(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    attributes: list[str] = ATTRIBUTES,
    height: int = 109,
    width: int = 89,
) -> ImageDataset:
    """Prepares CelebA: which attributes does a face have?

    The splits are the published ones, 162,770, 19,867 and 19,962 images.

    The paper takes 10 of the 40 attributes and does not say which, nor how
    large the images are. The defaults here are the ten attributes that divide
    the faces most evenly, and half the published height and width, 218 x 178.

    Args:
        raw_dir: Folder of the folder `img_align_celeba` and of
            `list_attr_celeba.txt` and `list_eval_partition.txt`. Images that
            are not there are left out.
        seed: Of no effect: nothing is drawn.
        progress: Shows how many images are decoded.
        attributes: Names of the attributes, each a binary task.
        height: Pixels that an image is resized to, vertically.
        width: Pixels horizontally.

    Returns:
        The data set: images `(height, width, 3)`.

    Raises:
        DataError: A file is missing or broken, or there is no attribute of
            a name.
        ValueError: The height or the width is not positive.

    References:
        Liu, Luo, Wang, Tang. Deep Learning Face Attributes in the Wild. ICCV
        2015.
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, supplement S1.1.
    """
    for name, pixels in (("height", height), ("width", width)):
        check_count(name, pixels, LARGEST_WIDTH)
    labels = read_attributes(raw_dir, attributes)
    partition = read_partition(raw_dir)
    if unlisted := set(labels.index) - set(partition.index):
        raise DataError.at(
            raw_dir / PARTITION, "a line for each image", f"no {min(unlisted)}"
        )
    folder = raw_dir / FOLDER
    if not folder.is_dir():
        raise DataError.at(folder, "the folder of the images", "no folder")
    there = {file.name for file in folder.iterdir()}
    labels = labels[labels.index.isin(there)]
    counts = {"listed images": len(labels)}
    check_release("celeba", folder, counts, {"listed images": 202_599})
    splits = {}
    for number, split in enumerate(SPLITS):
        rows = labels[partition[labels.index] == number]
        if rows.empty:
            raise DataError.at(folder, f"images of the {split} split", "none")
        pixels = _decode(folder, rows.index, (height, width), progress, split)
        splits[split] = Images.of(
            pixels, {name: rows[name] for name in attributes}
        )
    tasks = dict.fromkeys(attributes, "binary")
    return ImageDataset(Schema("celeba", {"image": "image"}, tasks), splits, {})


def _decode(
    folder: Path,
    names: "pd.Index[str]",
    size: tuple[int, int],
    progress: Progress,
    split: str,
) -> Any:
    """Reads images of a folder, uint8 `(rows, height, width, 3)`."""
    check_fits(
        len(names) * math.prod(size) * 3,
        folder,
        DataError,
        f"{len(names):,} {split} images of {size[0]:,} x {size[1]:,} pixels",
    )
    pixels = np.empty((len(names), *size, 3), np.uint8)
    described = progress.track(names, description=f"Decoding {split} images")
    for row, name in enumerate(described):
        pixels[row] = _decode_image(folder / name, size)
    return pixels


def _decode_image(file: Path, size: tuple[int, int]) -> npt.NDArray[np.uint8]:
    from PIL import Image

    with reading(file, "an image", DataError), warnings.catch_warnings():
        # An image that is far larger than its file.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file, formats=FORMATS) as image:
            resized = image.convert("RGB").resize(
                size[::-1], Image.Resampling.BILINEAR
            )
    return np.asarray(resized)


def read_attributes(raw_dir: Path, attributes: Sequence[str]) -> pd.DataFrame:
    """Reads some of the attributes of each image.

    Args:
        raw_dir: Folder of `list_attr_celeba.txt`: the number of images, the
            names of the attributes, and a line per image with 1 or -1 for each.
        attributes: Names of the wanted attributes.

    Returns:
        A column of 0 and 1 an attribute, indexed by the names of the files.

    Raises:
        DataError: The file is missing or broken, or there is no attribute of
            a name.
    """
    file = find_file(raw_dir, ATTRIBUTE_LIST)
    lines = _lines(file)
    names = lines[1].split() if len(lines) > 1 else []
    for name in attributes:
        if name not in names:
            raise DataError.at(file, f"an attribute {name!r}", shown(names))
    values = _table(lines[2:], len(names), {"1", "-1"}, file, first_line=3)
    if lines[0].strip() != str(len(values)):
        raise DataError.at(
            file,
            f"the number of images, {len(values)}",
            shown(lines[0]),
            line=1,
        )
    columns = {name: values[names.index(name)] == "1" for name in attributes}
    return pd.DataFrame(columns).astype("int64")


def read_partition(raw_dir: Path) -> "pd.Series[int]":
    """Reads which split each image belongs to.

    Args:
        raw_dir: Folder of `list_eval_partition.txt`: a line per image, 0 for
            training, 1 for validation, 2 for test.

    Returns:
        The numbers, indexed by the names of the files.

    Raises:
        DataError: The file is missing or broken.
    """
    file = find_file(raw_dir, PARTITION)
    values = _table(_lines(file), 1, {"0", "1", "2"}, file, first_line=1)
    return values[0].astype("int64")


def _lines(file: Path) -> list[str]:
    text = read_packed(file).decode("utf-8", errors="replace")
    return text.splitlines()


def _table(
    lines: Sequence[str],
    width: int,
    allowed: set[str],
    file: Path,
    first_line: int,
) -> pd.DataFrame:
    """The values after the name of each line's image, as texts."""
    rows = {}
    for number, line in enumerate(lines, first_line):
        name, *values = line.split() or [""]
        if len(values) != width or not allowed.issuperset(values):
            raise DataError.at(
                file,
                f"an image's name and {width} of {sorted(allowed)}",
                shown(line),
                line=number,
            )
        rows[name] = values
    return pd.DataFrame.from_dict(rows, orient="index")
