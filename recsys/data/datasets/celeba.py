import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.progress import Progress

from recsys.data.datasets.celeba_lists import PARTITION
from recsys.data.datasets.celeba_lists import read_attributes
from recsys.data.datasets.celeba_lists import read_partition
from recsys.data.datasets.release import check_release
from recsys.data.image_dataset import ImageDataset
from recsys.data.image_dataset import Images
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.errors import DataError
from recsys.errors.bounds import LARGEST_WIDTH
from recsys.errors.bounds import check_count
from recsys.errors.reading import check_fits
from recsys.errors.reading import reading

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
