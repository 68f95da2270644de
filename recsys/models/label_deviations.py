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
from recsys.errors.shown import printable
from recsys.models.additive_biases import fit_biases
from recsys.models.certain_gain import is_certain
from recsys.models.fold_statistics import FoldStatistics
from recsys.models.id_rows import row_origins
from recsys.models.label_factors import LabelFactors
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.target_statistics import numbers_of
from recsys.models.target_statistics import targets_by_task
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import Weighing
from recsys.tasks.row_weight import columns_of
from recsys.tasks.row_weight import weights_of
from recsys.terminal.progress import announce

if TYPE_CHECKING:
    from recsys.data.image_dataset import Images

_PENALTY = 3.0  # λ, in rows.
_FOLDS = 10
_FARTHEST = 5.0  # Standard deviations.
_SCALE = 0.2  # What a standard deviation becomes.
_TOLERANCE = 1e-3  # In standard deviations of a label.


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
    mean: where all ids have many rows, an unknown one is far from them. A
    deviation is 0.2: as large as other inputs, these numbers, which are nearly
    others for each id, were learned by heart before the vectors of the ids
    were learned.

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
        seed: Seed of the folds.
        factors: Where there are two columns, how many numbers the vectors of
            `LabelFactors` have. None unless given.
        held: The tables of a model that is trained on: the ids that it knows
            keep their rows, and columns that say nothing stay zeros. Not any
            unless given.
    """

    codes: Mapping[str, npt.NDArray[np.int32]]
    num_rows: Mapping[str, int]
    targets: Mapping[str, np.ndarray]
    weights: np.ndarray | None
    seed: int = 0
    factors: int = 0
    held: Mapping[str, np.ndarray] | None = None

    @classmethod
    def of(
        cls,
        ranker: Ranker,
        train: pd.DataFrame | SplitStream,
        weight: Weighing,
        seed: int,
        held: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """Takes the labels of a training split, for a model's statistics.

        Args:
            ranker: A model with target statistics.
            train: The training split, in memory or not. Of each row, the
                numbers of its ids and its labels are held.
            weight: What says what rows count, if anything does.
            seed: Seed of the folds.
            held: The tables of the model that is trained on, if any.
        """
        assert ranker.statistics is not None, "what they are for"
        num_rows = ranker.statistics.num_rows
        codes: dict[str, list[np.ndarray]] = {name: [] for name in num_rows}
        tasks = targets_by_task(ranker.tasks, ranker.num_classes)
        targets: dict[str, list[np.ndarray]] = {task: [] for task in tasks}
        weights = []
        names = [*num_rows, *ranker.tasks]
        names += columns_of(weight)
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
            seed,
            ranker.statistics.factors,
            held,
        )

    def tables(self) -> dict[str, np.ndarray]:
        """Returns the statistics of all ids, row 0 being that of unknown ones.

        Returns:
            By column, a float32 array `(ids + 1, numbers)`, the vectors of
            `LabelFactors` behind the others.
        """
        tables = self._informative_or_held(self._standardized(self._of_all))
        if not self.factors:
            return tables
        return {
            name: np.concatenate([table, vectors], axis=1)
            for (name, table), vectors in zip(
                tables.items(), self._label_factors.tables(), strict=True
            )
        }

    def of_folds(self) -> FoldStatistics:
        """Returns the statistics that the rows themselves are trained with."""
        tables = [self._standardized(raw) for raw in self._of_folds]
        by_column = {
            name: np.stack([table[name] for table in tables])
            for name in self.codes
        }
        products = self._label_factors.of_folds if self.factors else None
        return FoldStatistics(
            self._informative_or_held(by_column), self._folds, products
        )

    @cached_property
    def _label_factors(self) -> LabelFactors:
        users, items = self.codes.values()
        num_users, num_items = self.num_rows.values()
        weights = self.weights
        held = [
            np.where(_is_known(table)[:, None], table, np.nan)
            for table in (self.held or {}).values()
        ]
        return LabelFactors(
            (users, items),
            (num_users, num_items),
            np.concatenate([*self.targets.values()], axis=1),
            np.ones(self._count) if weights is None else weights,
            self._folds,
            self.factors,
            [table[:, self._numbers :] for table in held],
            self.seed,
        )

    @property
    def _numbers(self) -> int:
        """The numbers of an id, without its vectors."""
        return numbers_of({t: y.shape[1] for t, y in self.targets.items()})

    def _informative_or_held(
        self, tables: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        if self.held is not None:
            return {
                name: _continued(table, self.held[name], self._numbers)
                for name, table in tables.items()
            }
        return {
            name: table * self._informative[name]
            for name, table in tables.items()
        }

    @cached_property
    def _folds(self) -> npt.NDArray[np.int8]:
        """The fold of each row."""
        generator = np.random.default_rng(self.seed)
        return (generator.permutation(self._count) % _FOLDS).astype(np.int8)

    @cached_property
    def _of_folds(self) -> list[dict[str, np.ndarray]]:
        """For each fold, the statistics of the others."""
        return [self._raw(self._folds != fold) for fold in range(_FOLDS)]

    @cached_property
    def _of_all(self) -> dict[str, np.ndarray]:
        """The statistics of all rows."""
        return self._raw(np.full(self._count, True))

    @cached_property
    def _informative(self) -> dict[str, npt.NDArray[np.float32]]:
        """By column, 1 for the numbers of tasks it says something of, else 0.

        A b is judged beside those of the other columns.
        """
        flags: dict[str, list[float]] = {name: [] for name in self.codes}
        start = 0
        for targets in self.targets.values():
            numbers = slice(start, start + targets.shape[1])
            start = numbers.stop + 1  # Behind them the rows of the task.
            for name, flag in self._informative_for(targets, numbers).items():
                flags[name] += [flag] * (targets.shape[1] + 1)
        return {
            name: np.array(column, np.float32) for name, column in flags.items()
        }

    def _informative_for(
        self, targets: np.ndarray, numbers: slice
    ) -> dict[str, bool]:
        """By column, whether it says something of a task."""
        known = ~np.isnan(targets[:, 0])
        if not known.any():
            return dict.fromkeys(self.codes, False)
        predicted = {
            name: np.stack(
                [table[name][:, numbers] for table in self._of_folds]
            )[self._folds, own]
            for name, own in self.codes.items()
        }
        error = targets - targets[known].mean(axis=0)
        error = error - sum(predicted.values())
        informative = {}
        for name, part in predicted.items():
            # Without it, its mean would go to that of all rows.
            without = error + part - part[known].mean(axis=0)
            losses = (without**2)[known].sum(axis=1)
            gains = losses - (error**2)[known].sum(axis=1)
            weights = None if self.weights is None else self.weights[known]
            informative[name] = is_certain(gains, losses, weights)
        return informative

    @property
    def _count(self) -> int:
        return len(next(iter(self.codes.values())))

    @cached_property
    def _moments(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By column, mean and deviation of its numbers over the rows."""
        moments = {}
        for name, table in self._of_all.items():
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
            standardized[name] = (values * _SCALE).astype(np.float32)
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
    weight: Weighing,
    seed: int,
    start: MultiTaskModel | None = None,
) -> FoldStatistics | None:
    """Sets the target statistics of a model, if it has some.

    Args:
        model: The model, untrained.
        train: The training split.
        weight: What says what rows count, if anything does.
        seed: Seed of the training.
        start: The model that the training goes on from, if any.

    Returns:
        Those that the rows of the training split are trained with.
    """
    if not isinstance(model, Ranker) or model.statistics is None:
        return None
    assert isinstance(train, pd.DataFrame | SplitStream), "of a ranker"
    names = " and ".join(printable(n) for n in model.target_statistics)
    announce(f"Taking statistics of the labels by {names}")
    held = None if start is None else held_statistics(start, model)
    labels = LabelDeviations.of(model, train, weight, seed, held)
    model.statistics.fill(labels.tables())
    return labels.of_folds()


def held_statistics(
    start: MultiTaskModel, model: MultiTaskModel
) -> dict[str, np.ndarray] | None:
    """The statistics that a training goes on from, if any.

    Args:
        start: The model that has them.
        model: The model that is trained.

    Returns:
        By column, the row of each id of the model, new ones that of unknown
        ids.
    """
    if not isinstance(start, Ranker) or start.statistics is None:
        return None
    origins = row_origins(start, model)
    return {
        name: table[np.maximum(origins[name], 0)]
        for name, table in start.statistics.held().items()
    }


def _targets(labels: np.ndarray, num_classes: int | None) -> np.ndarray:
    """Labels `(rows, 1)`, or for each class whether they are of it."""
    targets = labels[:, None]
    if num_classes is None:
        return targets
    is_class = (targets == np.arange(num_classes)).astype(np.float64)
    return np.where(np.isnan(targets), np.nan, is_class)


def _is_known(held: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which ids a held table knows, `(ids + 1,)`.

    To it, an id with the row of unknown ones is not known.
    """
    known = (held != held[0]).any(axis=1)
    known[0] = True
    return known


def _continued(
    tables: np.ndarray, held: np.ndarray, numbers: int
) -> np.ndarray:
    """Tables `(..., ids + 1, numbers)` with the rows of ids that are known."""
    known = _is_known(held)
    held = held[:, :numbers]
    continued = tables * (held != 0).any(axis=0)
    continued[..., np.flatnonzero(known), :] = held[known]
    return continued
