from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from typing import ClassVar
from typing import Self

from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.data.dataset import Dataset
from recsys.data.split import Split

if TYPE_CHECKING:
    import numpy as np


class RankingBaseline:
    """A model that predicts the tasks of rows.

    One model is one file with one class, and a line in the registry,
    `recsys.baselines.RANKING`.

    Attributes:
        about: What it is, for the help.
        options: Its hyperparameters by name, in the order in which they are
            chosen.
    """

    about: ClassVar[str]
    options: ClassVar[Mapping[str, Option]] = {}

    @classmethod
    def fit(cls, dataset: Dataset, options: Options, seed: int = 0) -> Self:
        """Fits the model on the training split.

        Args:
            dataset: The data set; its test split is not looked at.
            options: A value for each of `options`.
            seed: Seed of what is drawn. Defaults to 0.

        Raises:
            DataError: The data have nothing that it can predict by.
        """
        raise NotImplementedError

    def predict(self, rows: Split) -> "dict[str, np.ndarray]":
        """Returns predictions by task, as `recsys.models.scorer` has them.

        Args:
            rows: A split of a data set, in memory.
        """
        raise NotImplementedError

    def write(self, folder: Path) -> None:
        """Writes the model to a folder."""
        raise NotImplementedError

    @classmethod
    def read(cls, folder: Path, dataset: Dataset) -> Self:
        """Reads what `write` has written.

        Args:
            folder: The folder.
            dataset: A data set of the same columns.

        Raises:
            FileError: A file is missing or broken.
        """
        raise NotImplementedError


def as_prediction(values: "np.ndarray") -> "np.ndarray":
    """Returns what `RankingBaseline.predict` has for a task.

    Args:
        values: `(rows, K)`: a number, or one for each of K classes, which need
            not have a sum of 1.
    """
    if values.shape[1] == 1:
        return values[:, 0]
    return values / values.sum(axis=1, keepdims=True)
