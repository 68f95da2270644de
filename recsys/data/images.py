from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


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

    pixels: Any
    labels: pd.DataFrame

    @classmethod
    def of(cls, pixels: Any, labels: Mapping[str, Any]) -> "Images":
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

    def __getitem__(self, task: str, /) -> "pd.Series[Any]":
        return self.labels[task]

    def take(self, rows: Any) -> "Images":
        """Returns some of the rows, by number, in the given order."""
        labels = self.labels.iloc[rows].reset_index(drop=True)
        return Images(self.pixels[rows], labels)

    def sample(self, n: int, *, random_state: int) -> "Images":
        """Returns `n` different rows, always the same for a random state."""
        generator = np.random.default_rng(random_state)
        return self.take(generator.permutation(len(self))[:n])
