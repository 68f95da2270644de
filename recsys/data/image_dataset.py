from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.data.classes import check_classes
from recsys.data.classes import count_classes
from recsys.data.schema import Schema
from recsys.data.split_dataset import SPLITS
from recsys.data.split_dataset import SplitDataset
from recsys.data.split_dataset import read_schema
from recsys.errors import DataError
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz


@dataclass(frozen=True)
class Images:
    """Images with their labels, one row each.

    Args:
        pixels: uint8 or uint16 array `(rows, height, width, channels)`; 255 is
            white in both.
        labels: A column of integers a task, rows numbered from 0.

    Example:
    >>> pixels = np.zeros((3, 8, 8, 1), np.uint8)
    >>> images = Images.of(pixels, {"digit": [7, 0, 1]})
    >>> images.sample(2, random_state=0)["digit"].tolist()
    [1, 7]
    >>> images.shape
    (8, 8, 1)
    """

    pixels: np.ndarray
    labels: pd.DataFrame

    @classmethod
    def of(
        cls, pixels: np.ndarray, labels: Mapping[str, npt.ArrayLike]
    ) -> "Images":
        """Puts pixels and integer labels `(rows,)` by task together."""
        columns = {
            task: np.asarray(values, np.int64)
            for task, values in labels.items()
        }
        return cls(pixels, pd.DataFrame(columns))

    @property
    def shape(self) -> tuple[int, ...]:
        """Height, width and channels of an image."""
        return tuple(self.pixels.shape[1:])

    def __len__(self) -> int:
        return len(self.pixels)

    @overload
    def __getitem__(self, tasks: str, /) -> pd.Series: ...

    @overload
    def __getitem__(self, tasks: list[str], /) -> pd.DataFrame: ...

    def __getitem__(
        self, tasks: str | list[str], /
    ) -> pd.Series | pd.DataFrame:
        return self.labels[tasks]

    def take(self, rows: np.ndarray | slice) -> "Images":
        """Returns some of the rows, by number, in the given order."""
        labels = self.labels.iloc[rows].reset_index(drop=True)
        return Images(self.pixels[rows], labels)

    def sample(self, n: int, *, random_state: int) -> "Images":
        """Returns `n` different rows, always the same for a random state."""
        generator = np.random.default_rng(random_state)
        return self.take(generator.permutation(len(self))[:n])


@dataclass(frozen=True, repr=False)
class ImageDataset(SplitDataset[Images]):
    """A data set of images in three splits, every value checked.

    On disk it is a folder with `train.npz`, `validation.npz` and `test.npz`
    and a `dataset.json` that says what their arrays mean: the images, uint8
    `(rows, height, width, channels)` and of one shape, under the name of the
    image feature, and integer labels `(rows,)` under the name of each task.
    Images may be uint16, so that sums of pixels can exceed 255, which is white
    in both.

    Args:
        schema: What the arrays mean.
        splits: The `"train"`, `"validation"` and `"test"` images.
        num_classes: For each multiclass task, how many classes there are.

    Example:
    >>> images = Images.of(np.zeros((2, 8, 8, 1), np.uint8), {"digit": [7, 0]})
    >>> schema = Schema("digits", {"image": "image"}, {"digit": "multiclass"})
    >>> splits = dict.fromkeys(SPLITS, images)
    >>> ImageDataset(schema, splits, {"digit": 10}).image_shape
    (8, 8, 1)
    """

    num_classes: Mapping[str, int]

    @property
    def image_feature(self) -> str:
        """Name of the image feature."""
        return next(iter(self.schema.features))

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Height, width and channels of an image."""
        return self.split("train").shape

    @classmethod
    def read(cls, folder: str | Path) -> "ImageDataset":
        """Reads and checks a data folder.

        The classes of a multiclass task are 0 to the largest label of the
        training split.

        Args:
            folder: The data folder. Arrays that `dataset.json` does not name
                are ignored.

        Raises:
            DataError: A file, an array or a value is missing or wrong.
        """
        schema = read_schema(folder)
        files = {name: Path(folder, f"{name}.npz") for name in SPLITS}
        splits = {name: _read(file, schema) for name, file in files.items()}
        train = splits["train"]
        num_classes = count_classes(train, schema.tasks, files["train"])
        for name, images in splits.items():
            _check_shape(train, images, files[name])
            check_classes(images, num_classes, files[name], "train.npz")
        return cls(schema, splits, num_classes)

    def _joined(self, first: Images, second: Images) -> Images:
        return Images(
            np.concatenate([first.pixels, second.pixels]),
            pd.concat([first.labels, second.labels], ignore_index=True),
        )

    def _write_split(self, split: Images, folder: Path, name: str) -> None:
        arrays: dict[str, np.ndarray] = {
            task: split[task].to_numpy() for task in self.schema.tasks
        }
        arrays[self.image_feature] = split.pixels
        write_npz(folder / f"{name}.npz", arrays)


def _read(file: Path, schema: Schema) -> Images:
    (feature,) = schema.features
    arrays = read_npz(file, [feature, *schema.tasks])
    pixels = arrays.pop(feature)
    if pixels.dtype not in (np.uint8, np.uint16) or pixels.ndim != 4:
        raise DataError.at(
            file,
            "uint8 or uint16 images (rows, height, width, channels)",
            _described(pixels),
            column=feature,
        )
    if not pixels.size:
        received = _described(pixels) if len(pixels) else "no rows"
        raise DataError.at(file, "at least one row", received)
    for task, labels in arrays.items():
        if labels.dtype.kind not in "iu" or labels.shape != pixels.shape[:1]:
            raise DataError.at(
                file,
                f"integers ({len(pixels)},), a label for each image",
                _described(labels),
                column=task,
            )
    images = Images.of(pixels, arrays)
    for task, kind in schema.tasks.items():
        kind.check_integers(images[task], file)
    return images


def _check_shape(train: Images, images: Images, file: Path) -> None:
    """Checks that a split has the image shape of training."""
    if images.shape != train.shape:
        raise DataError.at(
            file,
            f"images of the shape {train.shape} of those in train.npz",
            f"images of the shape {images.shape}",
        )


def _described(array: np.ndarray) -> str:
    return f"{array.dtype} {array.shape}"
