"""What labels deviate by for a user and an item together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from recsys.models.biased_factors import BiasedFactors
from recsys.models.biased_factors import Objective
from recsys.models.biased_factors import fit_factors
from recsys.models.certain_gain import is_certain

# Of the biases of users and of items, and of vectors. They are not tuned: what
# a product is worth, a model learns.
_PENALTIES = 10.0, 10.0, 14.0
# Twice as many bring predictions for other rows no further.
_SWEEPS = 8


@dataclass(frozen=True)
class LabelFactors:
    """Vectors of users and of items, whose product says more of a label.

        y ≈ μ + b_user + b_item + ⟨p_user, q_item⟩

    for each target y, in its standard deviations, by penalized least squares
    (`recsys.models.biased_factors`). The vectors are kept. They are zeros for
    a target whose products do not bring predictions for the rows of other
    folds nearer to their labels, by three standard errors of the difference.

    Attributes:
        codes: The numbers of the user and of the item of each row, two arrays
            `(rows,)`, 0 for unknown ones.
        sizes: How many numbers of users and of items there are.
        targets: An array `(rows, targets)`, NaN where missing.
        weights: How much each row counts, `(rows,)`.
        folds: The fold of each row, from 0 on.
        width: How many numbers a vector has.
        held: The vectors of a model that is trained on, as `tables` returns
            them, NaN for ids that are new. Those of others stay, and a target
            without vectors has none. All are new by default.
        seed: Seed of the first vectors.
    """

    codes: Sequence[npt.NDArray[np.int32]]
    sizes: tuple[int, int]
    targets: np.ndarray
    weights: np.ndarray
    folds: npt.NDArray[np.int8]
    width: int
    held: Sequence[np.ndarray] = ()
    seed: int = 0

    def tables(self) -> list[np.ndarray]:
        """Returns the vectors, zeros in row 0.

        Returns:
            For users and for items, float32 `(numbers, targets x width)`.
        """
        every = np.full(len(self.folds), True)
        tables = [
            np.zeros((size, len(self._informative), self.width), np.float32)
            for size in self.sizes
        ]
        for target in np.flatnonzero(self._informative).tolist():
            factors = self._fitted(target, every)
            # There, the last number is that of unknown ids.
            tables[0][:, target] = np.roll(factors.users[1:].T, 1, axis=0)
            tables[1][:, target] = np.roll(factors.items[1:].T, 1, axis=0)
        return [table.reshape(len(table), -1) for table in tables]

    @cached_property
    def of_folds(self) -> npt.NDArray[np.float32]:
        """For each row, the products by vectors of the other folds.

        Float32 `(rows, targets)`.
        """
        products, _ = self._predicted
        return np.where(self._informative, products, 0).astype(np.float32)

    @cached_property
    def _informative(self) -> npt.NDArray[np.bool_]:
        """For each target, whether its products say something of it."""
        if self.held:
            shape = -1, self.targets.shape[1], self.width
            users, items = (np.nan_to_num(side) for side in self.held)
            both = users.reshape(shape), items.reshape(shape)
            return np.all([side.any(axis=(0, 2)) for side in both], axis=0)
        products, errors = self._predicted
        without = np.square(errors + products)
        gains = without - np.square(errors)
        known = ~np.isnan(errors)
        return np.array(
            [
                is_certain(gain[rows], losses[rows], self.weights[rows])
                for gain, losses, rows in zip(
                    gains.T, without.T, known.T, strict=True
                )
            ]
        )

    @cached_property
    def _predicted(self) -> tuple[np.ndarray, np.ndarray]:
        """Products and errors of each row, by the other folds."""
        products = np.zeros_like(self.targets)
        errors = np.full_like(self.targets, np.nan)
        for fold in np.unique(self.folds):
            rows = np.flatnonzero(self.folds == fold)
            users, items = (own[rows] for own in self._shifted)
            for target in range(self.targets.shape[1]):
                factors = self._fitted(target, self.folds != fold)
                products[rows, target] = factors.products(users, items)
                predicted = factors(users, items)
                errors[rows, target] = self._scaled[rows, target] - predicted
        return products, errors

    def _fitted(
        self, target: int, rows: npt.NDArray[np.bool_]
    ) -> BiasedFactors:
        """Biases and vectors from the labels of some rows."""
        labels = self._scaled[:, target]
        used = rows & ~np.isnan(labels) & (self.weights > 0)
        order = self._by_user[used[self._by_user]]
        users, items = (own[order] for own in self._shifted)
        objective = Objective(
            users,
            items,
            labels[order],
            self.weights[order],
            False,
            _PENALTIES,
        )
        numbers = slice(target * self.width, (target + 1) * self.width)
        held = [np.roll(side[:, numbers], -1, axis=0).T for side in self.held]
        return fit_factors(
            objective, self.sizes, self.width, self.seed, _SWEEPS, held
        )

    @cached_property
    def _shifted(self) -> list[npt.NDArray[np.int32]]:
        """The numbers as `fit_factors` has them: the last one is unknown."""
        return [
            (own - 1) % size
            for own, size in zip(self.codes, self.sizes, strict=True)
        ]

    @cached_property
    def _by_user(self) -> npt.NDArray[np.intp]:
        return np.argsort(self._shifted[0], kind="stable")

    @cached_property
    def _scaled(self) -> np.ndarray:
        """The targets in standard deviations, with a mean of 0."""
        known = ~np.isnan(self.targets)
        counts = self.weights[:, None] * known
        total = np.maximum(counts.sum(axis=0), np.finfo(float).tiny)
        targets = np.where(known, self.targets, 0)
        targets = targets - (counts * targets).sum(axis=0) / total
        scale = np.sqrt((counts * np.square(targets)).sum(axis=0) / total)
        return np.where(known, targets / np.where(scale > 0, scale, 1), np.nan)
