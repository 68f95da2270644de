"""Perceptrons with the same function have their hidden units in any order.

Before kernels of two of them are averaged, the units of one are put into the
order of the other's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

# Each round lowers the distance, and few are needed: a hidden layer's order
# depends on its neighbours' alone.
MAX_ROUNDS = 20


@dataclass(frozen=True)
class Perceptron:
    """One expert's weights.

    Attributes:
        kernels: One array `(inputs, units)` per layer.
        biases: One array `(units,)` per layer, zeros where it has none.
    """

    kernels: Sequence[np.ndarray]
    biases: Sequence[np.ndarray]

    def distance(self, other: "Perceptron") -> float:
        """Sum of the squared differences of all weights."""
        return float(
            sum(
                np.square(mine - theirs).sum()
                for mine, theirs in zip(
                    [*self.kernels, *self.biases],
                    [*other.kernels, *other.biases],
                    strict=True,
                )
            )
        )

    def permuted(self, orders: Sequence[np.ndarray]) -> "Perceptron":
        """Returns the same function with the hidden units in these orders."""
        num_inputs, num_outputs = (
            self.kernels[0].shape[0],
            self.kernels[-1].shape[1],
        )
        # Inputs and outputs keep their places.
        ends = [np.arange(num_inputs), *orders, np.arange(num_outputs)]
        return Perceptron(
            [
                kernel[np.ix_(rows, columns)]
                for kernel, rows, columns in zip(
                    self.kernels, ends[:-1], ends[1:], strict=True
                )
            ],
            [
                bias[order]
                for bias, order in zip(self.biases, ends[1:], strict=True)
            ],
        )


def aligned(expert: Perceptron, reference: Perceptron) -> Perceptron:
    """Puts the hidden units of an expert into the order of another's.

    Minimises the squared distance of the weights. The order of one hidden
    layer, with those of the others fixed, is a linear assignment: a unit's
    gain is the inner product of its incoming weights, bias and outgoing
    weights with those of the unit whose place it takes. Layers take turns
    until no order changes; with a single hidden layer the first is optimal.

    Args:
        expert: The expert to permute.
        reference: One of the same shapes.

    Returns:
        A perceptron with the function of `expert`.

    Example:
        >>> expert = Perceptron(
        ...     [np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])],
        ...     [np.zeros(2), np.zeros(1)],
        ... )
        >>> swapped = expert.permuted([np.array([1, 0])])
        >>> swapped.kernels[0].tolist(), expert.distance(swapped)
        ([[2.0, 1.0]], 4.0)
        >>> expert.distance(aligned(swapped, expert))
        0.0

    References:
        Ainsworth et al., Git Re-Basin: Merging Models modulo Permutation
        Symmetries, ICLR 2023, section 3.2, algorithm 1.
    """
    orders = [np.arange(len(bias)) for bias in expert.biases[:-1]]
    for _ in range(MAX_ROUNDS):
        changed = False
        for layer in range(len(orders)):
            # All others in their order, this one's units as they were.
            partial = [
                np.arange(len(order)) if i == layer else order
                for i, order in enumerate(orders)
            ]
            gains = _gains(reference, expert.permuted(partial), layer)
            _, order = linear_sum_assignment(gains, maximize=True)
            changed = changed or not np.array_equal(order, orders[layer])
            orders[layer] = order
        if not changed or len(orders) == 1:
            break
    return expert.permuted(orders)


def _gains(reference: Perceptron, expert: Perceptron, layer: int) -> np.ndarray:
    """`(h, h)`: the gain of each place (row) from each unit (column)."""
    return (
        reference.kernels[layer].T @ expert.kernels[layer]
        + np.outer(reference.biases[layer], expert.biases[layer])
        + reference.kernels[layer + 1] @ expert.kernels[layer + 1].T
    )
