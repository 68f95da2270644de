from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any
from typing import Self

import numpy as np
from sklearn.model_selection import KFold
from sklearn.preprocessing import TargetEncoder

from recsys.baselines.array_folder import ArrayFolder
from recsys.baselines.option import Options
from recsys.errors import FileError
from recsys.errors.reading import reading

if TYPE_CHECKING:
    import lightgbm

_MOST_TREES = 2000
_PATIENCE = 50  # Trees without a smaller loss on the validation split.
_FOLDS = 5
_MOST_CLASSES = 20  # Of a task whose classes have a mean for each id.


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The rows that a task is fitted on or stopped by.

    Attributes:
        numbers: The columns that trees split on, float64 `(rows, columns)`.
        categories: The places of those that are categories.
        ids: Numbers of ids, integers `(rows, ids)`.
        labels: Float64 `(rows,)`, NaN where missing.
        weights: How much each row counts, `(rows,)`; `None` for once.
    """

    numbers: np.ndarray
    categories: list[int]
    ids: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None

    def with_labels(self) -> "LabelledRows":
        """Returns the rows that have a label and count."""
        there = ~np.isnan(self.labels)
        if self.weights is not None:
            there &= self.weights > 0
        return replace(
            self,
            numbers=self.numbers[there],
            ids=self.ids[there],
            labels=self.labels[there],
            weights=None if self.weights is None else self.weights[there],
        )


class BoostedTrees:
    """Gradient boosted trees for one task.

    Beside the numbers of a row, trees see the mean label of the training rows
    with each of its ids (for each class, where there are several), shrunk
    towards the mean of all rows. For the training rows themselves it is
    estimated out of fold.

    Args:
        constant: The mean label, or the shares of the classes, `(K,)`.
        means: For each id of a row, the mean of each of its numbers, or the
            share of each class, `(numbers + 1, K)`; the last row is for
            numbers that came later. None where there are more than 20
            classes.
        booster: The trees; `None` where the labels are too few, or all alike.
    """

    def __init__(
        self,
        constant: np.ndarray,
        means: Sequence[np.ndarray],
        booster: "lightgbm.Booster | None",
    ) -> None:
        self.constant = constant
        self.means = means
        self.booster = booster

    @classmethod
    def fit(
        cls,
        train: LabelledRows,
        validation: LabelledRows,
        objective: str,
        classes: int | None,
        options: Options,
        seed: int,
    ) -> Self:
        """Fits as many trees as have the smallest loss on validation rows.

        Args:
            train: The rows to fit.
            validation: The rows to stop by; without any label among them,
                there are 100 trees.
            objective: `"regression"`, `"binary"` or `"multiclass"`.
            classes: How many classes a multiclass task has, else `None`.
            options: `"learning-rate"`, `"leaves"` and `"min-rows"`.
            seed: Seed of the folds.
        """
        import lightgbm

        train, validation = train.with_labels(), validation.with_labels()
        constant = _constant(train, classes)
        if len(train.labels) < 2 * _FOLDS or len(np.unique(train.labels)) < 2:
            return cls(constant, [], None)
        out_of_fold, means = _fit_means(train, classes, seed)
        fitted = _dataset(train, out_of_fold)
        stopping: dict[str, Any] = {"num_boost_round": 100}
        if len(validation.labels):
            known = _looked_up(means, validation.ids)
            stopping = {
                "num_boost_round": _MOST_TREES,
                "valid_sets": [_dataset(validation, known, fitted)],
                "callbacks": [
                    lightgbm.early_stopping(_PATIENCE, verbose=False)
                ],
            }
        booster = lightgbm.train(
            {
                "objective": objective,
                "num_class": classes or 1,
                "learning_rate": options["learning-rate"],
                "num_leaves": int(options["leaves"]),
                "min_data_in_leaf": int(options["min-rows"]),
                "seed": seed,
                "deterministic": True,
                "force_row_wise": True,
                "verbosity": -1,
            },
            fitted,
            **stopping,
        )
        return cls(constant, means, booster)

    def predict(self, numbers: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Returns predictions, `(rows,)`, or `(rows, K)` for K > 1 classes.

        Args:
            numbers: As in `LabelledRows`.
            ids: As in `LabelledRows`.
        """
        if self.booster is None or not len(numbers):
            constants = np.repeat(self.constant[None], len(numbers), axis=0)
            return constants[:, 0] if constants.shape[1] == 1 else constants
        inputs = np.concatenate([numbers, _looked_up(self.means, ids)], axis=1)
        return np.asarray(self.booster.predict(inputs))

    def write(self, folder: Path, name: str) -> None:
        """Writes the model to files of a folder that begin with a name."""
        arrays = {
            f"{name}_means_{i}": array for i, array in enumerate(self.means)
        }
        files = ArrayFolder(folder)
        files.write({f"{name}_constant": self.constant, **arrays})
        if self.booster is not None:
            file = folder / f"{name}.txt"
            file.write_text(self.booster.model_to_string(), encoding="utf-8")

    @classmethod
    def read(
        cls, folder: Path, name: str, columns: tuple[int, int], width: int
    ) -> Self:
        """Reads what `write` has written.

        Args:
            folder: The folder.
            name: What the files begin with.
            columns: How many numbers and how many ids a row has.
            width: K, how many numbers are predicted.

        Raises:
            FileError: A file is missing or broken.
        """
        import lightgbm

        files, file = ArrayFolder(folder), folder / f"{name}.txt"
        constant = np.array(files.read(f"{name}_constant", width))
        if not file.exists():
            return cls(constant, [], None)
        means = [
            np.array(files.read(f"{name}_means_{place}", None, width))
            for place in range(columns[1])
            if (folder / f"{name}_means_{place}.npy").exists()
        ]
        expected = "the trees of a LightGBM model"
        with reading(file, expected):
            text = file.read_text(encoding="utf-8")
            booster = lightgbm.Booster(model_str=text)
        wanted = columns[0] + len(means) * width
        if booster.num_feature() != wanted:
            raise FileError.at(
                file,
                f"{expected} of {wanted} columns",
                f"one of {booster.num_feature()} columns",
            )
        return cls(constant, means, booster)


def _constant(rows: LabelledRows, classes: int | None) -> np.ndarray:
    """The mean label, or the shares of the classes, of weighted rows."""
    targets = rows.labels[:, None]
    if classes is not None:
        targets = targets == np.arange(classes)
    if not len(targets):
        return np.full(targets.shape[1], 1 / max(2, targets.shape[1]))
    return np.average(targets, axis=0, weights=rows.weights)


def _fit_means(
    rows: LabelledRows, classes: int | None, seed: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The mean label of each id: out of fold for the rows, and of all rows."""
    targets = rows.labels[:, None]
    if classes is not None:
        targets = (targets == np.arange(classes)).astype(np.float64)
    if not rows.ids.shape[1] or targets.shape[1] > _MOST_CLASSES:
        return np.zeros((len(targets), 0)), []
    out_of_fold = np.zeros((len(targets), targets.shape[1] * rows.ids.shape[1]))
    folds = KFold(_FOLDS, shuffle=True, random_state=seed)
    for rest, held_out in folds.split(rows.ids):
        means = _means(rows.ids[rest], targets[rest])
        out_of_fold[held_out] = _looked_up(means, rows.ids[held_out])
    return out_of_fold, _means(rows.ids, targets)


def _means(ids: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """For each id of a row, the shrunk mean of each of its numbers."""
    tables = [
        np.tile(targets.mean(axis=0), (int(codes.max()) + 2, 1))
        for codes in ids.T
    ]
    for column, target in enumerate(targets.T):
        encoder = TargetEncoder(target_type="continuous").fit(ids, target)
        for table, known, means in zip(
            tables, encoder.categories_, encoder.encodings_, strict=True
        ):
            table[known, column] = means
    return tables


def _looked_up(means: Sequence[np.ndarray], ids: np.ndarray) -> np.ndarray:
    """The means of the ids of rows, `(rows, means)`."""
    parts = [
        table[np.minimum(codes, len(table) - 1)]
        for table, codes in zip(means, ids.T, strict=False)
    ]
    return np.concatenate(parts, 1) if parts else np.zeros((len(ids), 0))


def _dataset(
    rows: LabelledRows,
    means: np.ndarray,
    reference: "lightgbm.Dataset | None" = None,
) -> "lightgbm.Dataset":
    import lightgbm

    return lightgbm.Dataset(
        np.concatenate([rows.numbers, means], axis=1),
        rows.labels,
        reference=reference,
        weight=rows.weights,
        categorical_feature=rows.categories,
        # It warns of the categories that are given here.
        params={"verbosity": -1},
    )
