from pathlib import Path

import numpy as np
from PIL import Image

from recsys.data.datasets.download import find_file
from recsys.data.image_dataset import Images
from recsys.errors import DataError
from recsys.errors.reading import check_fits
from recsys.errors.reading import read_text
from recsys.errors.reading import reading

FOLDER = "tiny-imagenet-200"  # What the published archive unpacks to.
SIDE = 64


def read_tiny_imagenet(folder: Path) -> tuple[Images, Images]:
    """Reads Tiny ImageNet from the folders of its download.

    The labels of its test images are not published: as everywhere, the
    validation images stand for them. A class is the number of the line of
    its WordNet id in `wnids.txt`, from 0.

    Args:
        folder: The folder `tiny-imagenet-200`, or the one that it is in:
            `wnids.txt`, `train/ID/images/*.JPEG`, `val/val_annotations.txt`
            and `val/images/*.JPEG`.

    Returns:
        Training and validation images `(64, 64, 3)` with their "class":
        100,000 and 10,000 of the whole download. Grey images are read as
        images whose three channels are the same.

    Raises:
        DataError: A file is missing or broken.

    References:
        Le and Yang. Tiny ImageNet Visual Recognition Challenge. Stanford
        CS 231N, 2015.
    """
    ids_file = find_file(folder, "wnids.txt", f"{FOLDER}/wnids.txt")
    ids = read_text(ids_file, "a list of WordNet ids", DataError).split()
    classes = {wordnet_id: number for number, wordnet_id in enumerate(ids)}
    root = ids_file.parent
    return _read_train(root, classes), _read_validation(root, classes)


def _read_train(root: Path, classes: dict[str, int]) -> Images:
    files, labels = [], []
    for wordnet_id, number in classes.items():
        images = root / "train" / wordnet_id / "images"
        found = sorted(images.glob("*.JPEG"))
        if not found:
            raise DataError.at(images, "images *.JPEG", "none of them")
        files += found
        labels += [number] * len(found)
    return Images.of(_read_pixels(files), {"class": labels})


def _read_validation(root: Path, classes: dict[str, int]) -> Images:
    """Each line: file, WordNet id and bounding box, between tabulators."""
    annotations = find_file(root, "val/val_annotations.txt")
    text = read_text(annotations, "lines of file and WordNet id", DataError)
    files, labels = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        name, _, rest = line.partition("\t")
        wordnet_id = rest.partition("\t")[0]
        if wordnet_id not in classes:
            raise DataError.at(
                annotations,
                "an id of wnids.txt after the name of a file",
                repr(wordnet_id),
                line=number,
            )
        files.append(root / "val" / "images" / name)
        labels.append(classes[wordnet_id])
    if not files:
        raise DataError.at(annotations, "at least one line", "none")
    return Images.of(_read_pixels(files), {"class": labels})


def _read_pixels(files: list[Path]) -> np.ndarray:
    shape = (len(files), SIDE, SIDE, 3)
    check_fits(int(np.prod(shape)), files[0].parent, DataError)
    pixels = np.empty(shape, np.uint8)
    for row, file in enumerate(files):
        if not file.is_file():
            raise DataError.at(file, "an image", "no file")
        with (
            reading(file, "a JPEG image", DataError),
            Image.open(file, formats=["JPEG"]) as image,
        ):
            if image.size != (SIDE, SIDE):
                expected = f"{SIDE} x {SIDE} pixels"
                raise DataError.at(file, expected, f"{image.size}")
            pixels[row] = np.asarray(image.convert("RGB"))
    return pixels
