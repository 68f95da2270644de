"""Biases and vectors of users and items, by sweeps over their coordinates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

SWEEPS = 16  # Over all coordinates.


@dataclass(frozen=True, eq=False)
class BiasedFactors:
    """What predicts z = μ + b_u + b_i + ⟨p_u, q_i⟩.

    Attributes:
        mean: μ.
        users: For each of U users b_u and p_u, float64 `(1 + D, U)`. The last
            user is unknown, and 0.
        items: For each of N items b_i and q_i, `(1 + D, N)`, likewise.
    """

    mean: float
    users: np.ndarray
    items: np.ndarray

    def __call__(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns z for the numbers of users and items, `(rows,)`."""
        biases = self.mean + self.users[0][users] + self.items[0][items]
        return biases + self.products(users, items)

    def products(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Returns ⟨p_u, q_i⟩ for the numbers of users and items, `(rows,)`."""
        values = np.zeros(len(users))
        for of_users, of_items in zip(
            self.users[1:], self.items[1:], strict=True
        ):
            values += of_users[users] * of_items[items]
        return values

    def scaled(self, scale: float, shift: float = 0.0) -> "BiasedFactors":
        """Returns what predicts `shift + scale * z`."""
        scales = np.full((len(self.users), 1), np.sqrt(scale))
        scales[0] = scale
        mean = shift + scale * self.mean
        return BiasedFactors(mean, scales * self.users, scales * self.items)


@dataclass(frozen=True, eq=False)
class Objective:
    """What is minimised, the weighted losses of rows with penalties.

        Σ_rows w ℓ(y, z) + λ_user/2 Σ b_u² + λ_item/2 Σ b_i²
            + λ/2 (Σ ‖p_u‖² + Σ ‖q_i‖²)

    with ℓ = (y - z)² / 2, or the logistic loss log(1 + exp(-2 y z)) of y of
    -1 or 1, whose curvature is 1 at z = 0 as well: a λ means the same for
    both.

    Attributes:
        users: The number of each row's user, `(rows,)`, in ascending order.
        items: The number of each row's item, `(rows,)`.
        targets: y, float64 `(rows,)`.
        weights: w, above 0, `(rows,)`.
        logistic: Whether the loss is the logistic one.
        penalties: λ_user, λ_item and λ.
    """

    users: np.ndarray
    items: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    logistic: bool
    penalties: tuple[float, float, float]

    def __call__(self, factors: BiasedFactors, values: np.ndarray) -> float:
        """Returns the value for some biases and vectors, which predict z."""
        if self.logistic:
            losses = np.logaddexp(0, -2 * self.targets * values)
        else:
            losses = np.square(self.targets - values) / 2
        of_user, of_item, of_vectors = self.penalties
        sizes = of_user * np.square(factors.users[0]).sum()
        sizes += of_item * np.square(factors.items[0]).sum()
        for side in (factors.users, factors.items):
            sizes += of_vectors * np.square(side[1:]).sum()
        return float(self.weights @ losses + sizes / 2)

    def descent(self, values: np.ndarray) -> np.ndarray:
        """Returns the negative derivatives of the losses, `(rows,)`."""
        if self.logistic:
            return self.weights * (self.targets - np.tanh(values))
        return self.weights * (self.targets - values)

    def curvature(self, values: np.ndarray) -> np.ndarray:
        """Returns the second derivatives of the losses, `(rows,)`."""
        if self.logistic:
            return self.weights / np.square(np.cosh(np.clip(values, -99, 99)))
        return self.weights

    def bound(self, values: np.ndarray) -> np.ndarray:
        """Returns curvatures of parabolas above the losses, `(rows,)`.

        Those that touch a loss at z, and lie above it everywhere. Of the
        logistic loss, the least curvature is tanh(z) / z.
        """
        if self.logistic:
            small = np.abs(values) < 1e-6
            values = np.where(small, 1.0, values)
            return self.weights * np.where(small, 1, np.tanh(values) / values)
        return self.weights


def fit_factors(
    objective: Objective,
    shape: tuple[int, int],
    width: int,
    seed: int = 0,
    sweeps: int = SWEEPS,
    held: Sequence[np.ndarray] = (),
) -> BiasedFactors:
    """Returns biases and vectors that minimise an objective.

    A sweep replaces the losses by parabolas at the present z, and minimises
    in turn over μ, the biases, and each coordinate of the vectors, of all
    users at once and of all items at once. The parabolas are those of
    Newton's method. Where the objective would rise by it, the sweep is done
    with parabolas above the losses instead, by which it cannot.

    Args:
        objective: What is minimised.
        shape: U and N, the last of them whoever is unknown.
        width: D.
        seed: Seed of the first vectors. Defaults to 0.
        sweeps: How many there are. Defaults to 16.
        held: Vectors of users `(D, U)` and of items `(D, N)` that stay as they
            are; those of NaN are found, as all are by default.

    References:
        Hsieh, Dhillon et al. Scalable Coordinate Descent Approaches to
        Parallel Matrix Factorization for Recommender Systems. ICDM 2012,
        section III: the coordinates. de Leeuw, Lange. Sharp Quadratic
        Majorization in One Dimension. CSDA 2009, section 4: the parabolas.
    """
    rng = np.random.default_rng(seed)
    held = held or [np.full((width, size), np.nan) for size in shape]
    sides = []
    for size, vectors in zip(shape, held, strict=True):
        side = rng.normal(0, 0.2 / np.sqrt(width), (1 + width, size))
        side[1:] = np.where(np.isnan(vectors), side[1:], vectors)
        side[0] = side[:, -1] = 0
        sides.append(side)
    free = [np.isnan(vectors).all(axis=0) for vectors in held]
    factors = BiasedFactors(_first_mean(objective), *sides)
    values = factors(objective.users, objective.items)
    for _ in range(sweeps):
        curvature = objective.curvature(values)
        swept, there = _swept(factors, values, objective, curvature, free)
        if objective.logistic and not (
            objective(swept, there) <= objective(factors, values)
        ):
            bound = objective.bound(values)
            swept, there = _swept(factors, values, objective, bound, free)
        factors, values = swept, there
    return factors


def _first_mean(objective: Objective) -> float:
    """The best μ by itself; of labels that are all alike, a finite one."""
    weights, targets = objective.weights, objective.targets
    if not objective.logistic:
        return float(weights @ targets / (weights.sum() or 1.0))
    # As if half a row of each label were there beside.
    return float(np.arctanh(weights @ targets / (weights.sum() + 1)))


def _swept(
    factors: BiasedFactors,
    values: np.ndarray,
    objective: Objective,
    curvature: np.ndarray,
    free: Sequence[npt.NDArray[np.bool_]],
) -> tuple[BiasedFactors, np.ndarray]:
    """What minimises parabolas of some curvature at z, and its z.

    Of the vectors, those of free users and items move.
    """
    users, items = factors.users.copy(), factors.items.copy()
    shape = users.shape[1], items.shape[1]
    starts = np.searchsorted(objective.users, np.arange(shape[0] + 1))
    places = objective.items, starts
    # Entries are rows, in their order: the negative derivatives of the
    # parabolas and their curvature, (U, N).
    left = csr_array((objective.descent(values), *places), shape=shape)
    curved = csr_array((curvature, *places), shape=shape)

    def move(
        own: np.ndarray,
        other: np.ndarray,
        penalty: float,
        by_item: bool,
        moves: npt.NDArray[np.bool_] | bool = True,
    ) -> None:
        first, second = (left.T, curved.T) if by_item else (left, curved)
        step = first @ other - penalty * own
        step /= second @ np.square(other) + penalty
        step *= moves
        step[-1] = 0  # Whoever is unknown.
        own += step
        ends = objective.users, objective.items
        of_own, of_other = ends[::-1] if by_item else ends
        left.data -= curvature * step[of_own] * other[of_other]

    shift = left.data.sum() / (curvature.sum() or 1.0)
    left.data -= curvature * shift
    of_user, of_item, of_vectors = objective.penalties
    move(users[0], np.ones(shape[1]), of_user, False)
    move(items[0], np.ones(shape[0]), of_item, True)
    for own, other in zip(users[1:], items[1:], strict=True):
        move(own, other, of_vectors, False, free[0])
        move(other, own, of_vectors, True, free[1])
    swept = BiasedFactors(factors.mean + shift, users, items)
    return swept, swept(objective.users, objective.items)
