from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Annotated

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype
from pandas.api.types import is_float_dtype
from pandas.api.types import is_numeric_dtype
from pydantic import field_validator

from recsys.columns.column_values import MISSING_NUMBERS
from recsys.columns.column_values import as_numbers
from recsys.columns.column_values import as_strings
from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.errors.shapes import WHOLE
from recsys.errors.shapes import described
from recsys.errors.shapes import filled
from recsys.errors.shown import shown
from recsys.tasks.task import Task

if TYPE_CHECKING:
    import keras

    from keras_moe.types import Tensor

MOST_CLASSES = 100_000  # Larger labels are no classes: each has weights.
_EXPECTED = f"a class, 0 to {MOST_CLASSES - 1:,}"
_Class = Annotated[
    str,
    described("classes named by texts"),
    filled("classes named by texts"),
    WHOLE,
]


class Multiclass(Task):
    """Classes 0, 1, 2, ... or texts, `float64` with NaN where missing.

    Predictions are the probabilities of the classes. In a table they are
    columns `<task>_0`, `<task>_1` and so on, or `<task>_<class>` for texts.

    Of integers there are as many classes as the largest label of the training
    split says. Texts are numbered in their order in `classes`; where those
    are not declared, they are the texts of the training split, sorted. Labels
    are texts where all of them are, and one is no number.

    Args:
        classes: The classes, two or more different texts. Those of the
            training split unless given.
    """

    type = "multiclass"
    activation = "softmax"
    of_labels = ("classes",)

    classes: list[_Class] | None = None

    @field_validator("classes")
    @classmethod
    def _check_classes(cls, classes: list[str] | None) -> list[str] | None:
        if classes is None:
            return None
        if not 2 <= len({*classes}) == len(classes) <= MOST_CLASSES:
            raise ValueError(
                f"expected 2 to {MOST_CLASSES:,} different classes. "
                f"Received: {shown(classes)}"
            )
        return classes

    def check(self, column: pd.Series, file: object) -> pd.Series:
        """Returns classes as numbers; texts that have none yet as texts."""
        if self.classes is not None:
            return self._numbered(column, file)
        if _are_texts(column):
            texts = column.where(column != "").astype(object)
            blank = texts.notna() & texts.map(_is_blank)
            refuse(column, blank, "a class that is not blank, or none", file)
            return texts
        expected = f"{_EXPECTED}, or nothing"
        labels = as_numbers(column, file, expected)
        whole = (labels >= 0) & (labels < MOST_CLASSES) & (labels % 1 == 0)
        refuse(column, ~whole & labels.notna(), expected, file)
        return labels

    def _numbered(self, column: pd.Series, file: object) -> pd.Series:
        """The places of texts among the classes, from 0."""
        assert self.classes is not None, "asked for with classes alone"
        texts = _as_texts(column)
        texts = texts.where(texts != "")
        places = {name: float(place) for place, name in enumerate(self.classes)}
        numbers = texts.map(places).astype("float64")
        expected = f"one of the classes {shown(self.classes)}, or nothing"
        refuse(column, numbers.isna() & texts.notna(), expected, file)
        return numbers

    def unified(self, columns: Sequence[pd.Series]) -> Sequence[pd.Series]:
        """Makes all labels texts if some of them are."""
        numbers = [is_numeric_dtype(column) for column in columns]
        if all(numbers) or not any(numbers):
            return columns
        return [_as_texts(column) for column in columns]

    def learned(self, labels: Sequence[pd.Series], file: object) -> Task:
        if self.classes is not None or all(map(is_numeric_dtype, labels)):
            return self
        texts = sorted({text for part in labels for text in part.dropna()})
        if not 2 <= len(texts) <= MOST_CLASSES:
            raise DataError.at(
                file,
                f"2 to {MOST_CLASSES:,} classes",
                f"{len(texts):,}: {shown(texts)}",
                column=labels[0].name,
            )
        return Multiclass(classes=texts)

    def as_stored(self, labels: pd.Series) -> pd.Series:
        if self.classes is None:
            return labels
        return labels.map(dict(enumerate(self.classes))).astype(object)

    def check_integers(self, labels: "pd.Series[int]", file: object) -> None:
        most = MOST_CLASSES if self.classes is None else len(self.classes)
        expected = f"a class, 0 to {most - 1:,}"
        refuse(labels, (labels < 0) | (labels >= most), expected, file)

    def num_classes(self, labels: pd.Series, file: object) -> int:
        if self.classes is not None:
            return len(self.classes)
        largest = labels.max()
        if not largest > 0:  # NaN neither.
            raise DataError.at(
                file,
                "at least two classes",
                "the class 0" if largest == 0 else "no label",
                column=labels.name,
            )
        return int(largest) + 1

    def shifted(self, outputs: "Tensor", by: "Tensor") -> "Tensor":
        from keras import ops

        odds = outputs * ops.exp(by)
        return odds / ops.sum(odds, axis=-1, keepdims=True)

    def class_names(self, num_classes: int | None) -> list[str] | list[int]:
        """Returns the classes in the order of the predictions.

        Args:
            num_classes: What the method of this name returns.
        """
        return [*self.classes] if self.classes else [*range(num_classes or 0)]

    def columns(self, task: str, num_classes: int | None) -> list[str]:
        return [f"{task}_{name}" for name in self.class_names(num_classes)]

    def constant(
        self,
        labels: np.ndarray,
        num_classes: int | None,
        weights: np.ndarray | None = None,
    ) -> list[float]:
        """Returns the share of each class."""
        counts = np.bincount(
            labels.astype(int), weights, minlength=num_classes or 0
        )
        return (counts / counts.sum()).tolist()

    def loss(
        self, reduction: str | None, scale: float | None = None
    ) -> "keras.losses.Loss":
        import keras

        return keras.losses.SparseCategoricalCrossentropy(reduction=reduction)


def _are_texts(column: pd.Series) -> bool:
    """Returns whether all present labels are texts, one not a number."""
    if is_numeric_dtype(column):
        return False
    values = column[column.notna() & ~column.isin(MISSING_NUMBERS)]
    if infer_dtype(values) != "string":
        return False
    numbers = pd.to_numeric(values, errors="coerce")
    return bool(numbers.isna().any())


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def _as_texts(column: pd.Series) -> pd.Series:
    """Labels as texts, missing ones as they are; whole numbers as integers."""
    if is_float_dtype(column) and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    return as_strings(column)
