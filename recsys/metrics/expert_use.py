from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True, eq=False)
class ExpertUse:
    """Use of a gate's experts for the rows of a split.

    Attributes:
        sets: The experts of nonzero weight of each row as bits, the first
            expert in the lowest bit of the first byte: uint8 array
            `(rows, ceil(n / 8))`.
        weights: Sum over the rows of the weights, each row's divided by their
            sum, float64 array `(n,)`. A row without weight adds nothing.
        entropy: Sum over the same rows of the entropy of these weights, in
            bits.
    """

    sets: npt.NDArray[np.uint8]
    weights: npt.NDArray[np.float64]
    entropy: float

    @property
    def experts_per_row(self) -> float | None:
        """Mean number of experts of a row; `None` without rows."""
        if not len(self.sets):
            return None
        return float(np.unpackbits(self.sets, axis=1).sum(axis=1).mean())

    @property
    def most_frequent_set(self) -> float | None:
        """Share of the rows with the commonest set of experts.

        A row without any has the empty set. `None` without rows.
        """
        if not len(self.sets):
            return None
        # Byte by byte, rows of one set so far have one number: no more than
        # there are rows, so that products stay far below 2^63.
        numbers = np.zeros(len(self.sets), np.int64)
        for byte in self.sets.T:
            pairs = 256 * numbers + byte
            numbers, _ = pd.factorize(pairs)
        return float(np.bincount(numbers).max() / len(numbers))

    @property
    def mutual_information(self) -> float | None:
        """Information of an expert about the row that chose it, in bits.

        Of a row taken by chance, and an expert of it taken by its weight:

            I(row; expert) = H(mean of the weights) - mean of H(weights)

        0 where all rows weigh the experts alike, log2(n) where each row has
        one expert and all experts have as many rows. `None` where no row has
        weight, or a weight is not finite.
        """
        rows = np.count_nonzero(self.sets.any(axis=1))
        total = self.weights.sum()
        if not rows or not np.isfinite(total + self.entropy):
            return None
        means = self.weights[self.weights > 0] / total
        entropy_of_mean = -np.sum(means * np.log2(means))
        # Float32 sums may put it a little below 0.
        return max(0.0, float(entropy_of_mean - self.entropy / rows))

    @property
    def dead(self) -> npt.NDArray[np.bool_]:
        """Experts without weight in any row, boolean array `(n,)`."""
        used = np.bitwise_or.reduce(self.sets, axis=0)
        bits = np.unpackbits(used, count=len(self.weights), bitorder="little")
        return bits == 0
