"""The statistics of `TargetStatistics`, from the labels of a training split."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.data.streaming.frames import frames_of
from recsys.data.streaming.split_stream import SplitStream
from recsys.models.additive_biases import fit_biases
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.target_statistics import targets_by_task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

if TYPE_CHECKING:
    from recsys.data.image_dataset import Images

_PENALTY = 3.0  # λ, in rows.
_FOLDS = 10
_CERTAIN = 3.0  # Standard errors.
_FARTHEST = 5.0  # Standard deviations.
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
    numbers are standardized over the rows, and at most 5 deviations from the
    mean: where all ids have many rows, an unknown one is far from them.

    Both are zeros for all ids of a column that says nothing of the task: where
    its b does not bring predictions for the rows of other folds nearer to
    their labels, by three standard errors of the difference. A model would
    only learn that the other rows of an id have fewer likes if this one is
    liked, which is true of training rows alone.

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
        ranker: Ranker,
        train: pd.DataFrame | SplitStream,
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

    def tables(
        self, seed: int, held: Mapping[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Returns the statistics of all ids, row 0 being that of unknown ones.

        Args:
            seed: Seed of the folds, which tell what columns are worth.
            held: Tables of a model that is trained on: the ids that it knows
                keep their rows, and columns that say nothing stay zeros.

        Returns:
            By column, a float32 array `(ids + 1, numbers)`.
        """
        tables = self._standardized(self._raw(np.full(self._count, True)))
        return self._told_or_held(tables, seed, held)

    def of_folds(
        self, seed: int, held: Mapping[str, np.ndarray] | None = None
    ) -> FoldStatistics:
        """Returns the statistics that the rows themselves are trained with.

        The arguments are those of `tables`.
        """
        tables = [self._standardized(raw) for raw in self._raw_of_folds(seed)]
        by_column = {
            name: np.stack([table[name] for table in tables])
            for name in self.codes
        }
        return FoldStatistics(
            self._told_or_held(by_column, seed, held), self._folds(seed)
        )

    def _told_or_held(
        self,
        tables: Mapping[str, np.ndarray],
        seed: int,
        held: Mapping[str, np.ndarray] | None,
    ) -> dict[str, np.ndarray]:
        if held is not None:
            return {
                n: _continued(table, held[n]) for n, table in tables.items()
            }
        told = self._told(seed)
        return {name: table * told[name] for name, table in tables.items()}

    def _folds(self, seed: int) -> npt.NDArray[np.int8]:
        generator = np.random.default_rng(seed)
        return (generator.permutation(self._count) % _FOLDS).astype(np.int8)

    def _raw_of_folds(self, seed: int) -> list[dict[str, np.ndarray]]:
        """For each fold, the statistics of the others."""
        folds = self._folds(seed)
        return [self._raw(folds != fold) for fold in range(_FOLDS)]

    def _told(self, seed: int) -> dict[str, npt.NDArray[np.float32]]:
        """By column, 1 for the numbers of tasks it says something of, else 0.

        A b is judged beside those of the other columns.
        """
        folds, tables = self._folds(seed), self._raw_of_folds(seed)
        told: dict[str, list[float]] = {name: [] for name in self.codes}
        start = 0
        for targets in self.targets.values():
            numbers = slice(start, start + targets.shape[1])
            start = numbers.stop + 1  # Behind them the rows of the task.
            predicted = {
                name: np.stack([table[name][:, numbers] for table in tables])[
                    folds, own
                ]
                for name, own in self.codes.items()
            }
            known = ~np.isnan(targets[:, 0])
            if not known.any():
                for flags in told.values():
                    flags += [0.0] * (targets.shape[1] + 1)
                continue
            error = targets - targets[known].mean(axis=0)
            error = error - sum(predicted.values())
            for name, part in predicted.items():
                # Without it, its mean would go to that of all rows.
                without = error + part - part[known].mean(axis=0)
                gain = (without**2 - error**2)[known].sum(axis=1)
                told[name] += [self._is_certain(gain, known)] * (
                    targets.shape[1] + 1
                )
        return {
            name: np.array(flags, np.float32) for name, flags in told.items()
        }

    def _is_certain(
        self, gain: np.ndarray, known: npt.NDArray[np.bool_]
    ) -> bool:
        """Whether the mean gain of rows is above 0."""
        if self.weights is not None:
            gain = gain * self.weights[known]
        if len(gain) < 2:
            return False
        return bool(gain.mean() > _CERTAIN * gain.std() / np.sqrt(len(gain)))

    @property
    def _count(self) -> int:
        return len(next(iter(self.codes.values())))

    @cached_property
    def _moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By column, mean and deviation of its numbers over the rows."""
        tables = self._raw(np.full(self._count, True))
        moments = {}
        for name, table in tables.items():
            seen = table[self.codes[name]]
            scale = seen.std(axis=0)
            moments[name] = seen.mean(axis=0), np.where(scale > 0, scale, 1.0)
        return moments

    def _standardized(
        self, tables: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        standardized = {}
        for name, table in tables.items():
            mean, scale = self._moments[name]
            values = np.clip((table - mean) / scale, -_FARTHEST, _FARTHEST)
            standardized[name] = values.astype(np.float32)
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
                # As many as all rows would have, for those of folds to be
                # like those of predictions.
                counts = np.bincount(codes[name], weights, len(values))
                counts = counts / max(rows.mean(), 1 / len(rows))
                counts[-1] = 0
                columns = np.column_stack([values, np.log1p(counts)])
                parts[name].append(np.roll(columns, 1, axis=0))
        return {
            name: np.concatenate(columns, axis=1)
            for name, columns in parts.items()
        }


def fill_statistics(
    model: MultiTaskModel,
    train: "pd.DataFrame | Images | SplitStream",
    weight: str | None,
    seed: int,
    start: MultiTaskModel | None = None,
) -> None:
    """Sets the target statistics of a model, if it has some.

    Args:
        model: The model, untrained.
        train: The training split.
        weight: Column with the weights of rows, if any.
        seed: Seed of the training.
        start: The model that the training goes on from, if any.
    """
    if isinstance(model, Ranker) and model.statistics is not None:
        assert isinstance(train, pd.DataFrame | SplitStream), "of a ranker"
        labels = LabelDeviations.of(model, train, weight)
        tables = labels.tables(seed, held_statistics(start))
        model.statistics.fill(tables)


def held_statistics(
    start: MultiTaskModel | None,
) -> dict[str, np.ndarray] | None:
    """The statistics of a model that a training goes on from, if any."""
    if isinstance(start, Ranker) and start.statistics is not None:
        return start.statistics.held()
    return None


def _targets(labels: np.ndarray, num_classes: int | None) -> np.ndarray:
    """Labels `(rows, 1)`, or for each class whether they are of it."""
    targets = labels[:, None]
    if num_classes is None:
        return targets
    is_class = (targets == np.arange(num_classes)).astype(np.float64)
    return np.where(np.isnan(targets), np.nan, is_class)


def _continued(tables: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Tables `(..., ids + 1, numbers)` with the rows of ids that are known.

    To the held table, `(some ids + 1, numbers)`, an id with the row of unknown
    ones is not known.
    """
    known = (held != held[0]).any(axis=1)
    known[0] = True
    continued = tables * (held != 0).any(axis=0)
    continued[..., np.flatnonzero(known), :] = held[known]
    return continued
