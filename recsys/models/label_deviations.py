"""The statistics of `TargetStatistics`, from the labels of a training split."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Self

import numpy as np
import numpy.typing as npt

from recsys.data.streaming.frames import frames_of
from recsys.data.streaming.split_stream import SplitStream
from recsys.models.additive_biases import fit_biases
from recsys.models.target_statistics import targets_by_task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

if TYPE_CHECKING:
    import pandas as pd

    from recsys.models.ranker import Ranker

_PENALTY = 3.0  # λ, in rows.
_FOLDS = 10
_TOLERANCE = 1e-3  # In standard deviations of a label.


@dataclass(frozen=True)
class FoldStatistics:
    """For each training row, the statistics of its ids from other rows.

    The rows are dealt out into ten folds; a row has the statistics of the nine
    others, in which an id that is only in its own is as an unknown one.

    Attributes:
        tables: By column, float32 `(folds, ids + 1, numbers)`: the statistics
            without the rows of each fold.
        folds: The fold of each row.
    """

    tables: Mapping[str, np.ndarray]
    folds: npt.NDArray[np.int8]

    def __call__(
        self, codes: Mapping[str, np.ndarray], start: int = 0
    ) -> np.ndarray:
        """Returns the statistics of rows that are one after the other.

        Args:
            codes: By column, the number of each row's id.
            start: Which row of the training split is the first.

        Returns:
            Float32 array `(rows, columns x numbers)`.
        """
        count = len(next(iter(codes.values())))
        folds = self.folds[start : start + count]
        parts = [
            table[folds, codes[name]] for name, table in self.tables.items()
        ]
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class LabelDeviations:
    """How far the labels of an id are from the mean, and how many it has.

    For each task, an id has the b of a mean with deviations of the ids of all
    columns,

        min_b Σ_rows (y - μ - Σ_columns b_id)² + λ Σ_ids b_id²

    with λ = 3 (for a multiclass task a b for each class), and behind it
    log(1 + n), n being the rows that have the id and a label. The λ is small
    and not tuned: what the b of so many rows is worth, a model learns. All
    numbers are standardized over the rows.

    Attributes:
        codes: By column, the number of each row's id, 0 for unknown ones.
        num_rows: By column, how many numbers there are.
        targets: By task, an array `(rows, classes)` or `(rows, 1)`, NaN where
            missing.
        weights: How much each row counts, `None` for once.
    """

    codes: Mapping[str, npt.NDArray[np.int32]]
    num_rows: Mapping[str, int]
    targets: Mapping[str, np.ndarray]
    weights: np.ndarray | None

    @classmethod
    def of(
        cls,
        ranker: "Ranker",
        train: "pd.DataFrame | SplitStream",
        weight: str | None,
    ) -> Self:
        """Takes the labels of a training split, for a model's statistics.

        Args:
            ranker: A model with target statistics.
            train: The training split, in memory or not. Of each row, the
                numbers of its ids and its labels are held.
            weight: Column with the weights of rows, if any.
        """
        assert ranker.statistics is not None, "what they are for"
        num_rows = ranker.statistics.num_rows
        codes: dict[str, list[np.ndarray]] = {name: [] for name in num_rows}
        tasks = targets_by_task(ranker.tasks, ranker.num_classes)
        targets: dict[str, list[np.ndarray]] = {task: [] for task in tasks}
        weights = []
        names = [*num_rows, *ranker.tasks]
        if weight is not None:
            names.append(weight)
        for frame in frames_of(train, names):
            for name, parts in codes.items():
                parts.append(ranker.fitted[name].encode(frame[name]))
            labels = labels_of(frame, ranker.tasks)
            for task, parts in targets.items():
                count = ranker.num_classes.get(task)
                parts.append(_targets(labels[task], count))
            counts = weights_of(frame, weight)
            weights += [] if counts is None else [counts]
        return cls(
            {name: np.concatenate(parts) for name, parts in codes.items()},
            num_rows,
            {task: np.concatenate(parts) for task, parts in targets.items()},
            np.concatenate(weights) if weights else None,
        )

    def tables(self) -> dict[str, np.ndarray]:
        """Returns the statistics of all ids, row 0 being that of unknown ones.

        Returns:
            By column, a float32 array `(ids + 1, numbers)`.
        """
        return self._standardized(self._raw(np.full(self._count, True)))

    def of_folds(self, seed: int) -> FoldStatistics:
        """Returns the statistics that the rows themselves are trained with.

        Args:
            seed: Seed of the folds.
        """
        generator = np.random.default_rng(seed)
        folds = (generator.permutation(self._count) % _FOLDS).astype(np.int8)
        tables = [
            self._standardized(self._raw(folds != fold))
            for fold in range(_FOLDS)
        ]
        by_column = {
            name: np.stack([table[name] for table in tables])
            for name in self.codes
        }
        return FoldStatistics(by_column, folds)

    @property
    def _count(self) -> int:
        return len(next(iter(self.codes.values())))

    @cached_property
    def _moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By column, mean and deviation of its numbers over the rows."""
        tables = self._raw(np.full(self._count, True))
        moments = {}
        for name, table in tables.items():
            counts = np.bincount(self.codes[name], minlength=len(table))
            mean = np.average(table, axis=0, weights=counts)
            variance = np.average((table - mean) ** 2, axis=0, weights=counts)
            scale = np.sqrt(variance)
            moments[name] = mean, np.where(scale > 0, scale, 1.0)
        return moments

    def _standardized(
        self, tables: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        standardized = {}
        for name, table in tables.items():
            mean, scale = self._moments[name]
            standardized[name] = ((table - mean) / scale).astype(np.float32)
        return standardized

    def _raw(self, rows: npt.NDArray[np.bool_]) -> dict[str, np.ndarray]:
        """The statistics by column, zeros in row 0, from some of the rows."""
        parts: dict[str, list[np.ndarray]] = {name: [] for name in self.codes}
        for targets in self.targets.values():
            known = rows & ~np.isnan(targets[:, 0])
            weights = None if self.weights is None else self.weights[known]
            # To `fit_biases`, the last number is that of unknown ids.
            codes = {
                name: (own[known] - 1) % self.num_rows[name]
                for name, own in self.codes.items()
            }
            spread = targets[known].std() if known.any() else 0.0
            _, *deviations = fit_biases(
                targets[known],
                list(codes.values()),
                list(self.num_rows.values()),
                [_PENALTY] * len(codes),
                weights,
                _TOLERANCE * spread,
            )
            for name, values in zip(codes, deviations, strict=True):
                counts = np.bincount(codes[name], weights, len(values))
                counts[-1] = 0
                columns = np.column_stack([values, np.log1p(counts)])
                parts[name].append(np.roll(columns, 1, axis=0))
        return {
            name: np.concatenate(columns, axis=1)
            for name, columns in parts.items()
        }


def _targets(labels: np.ndarray, num_classes: int | None) -> np.ndarray:
    """Labels `(rows, 1)`, or for each class whether they are of it."""
    targets = labels[:, None]
    if num_classes is None:
        return targets
    is_class = (targets == np.arange(num_classes)).astype(np.float64)
    return np.where(np.isnan(targets), np.nan, is_class)
