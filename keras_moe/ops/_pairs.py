"""Pairs of rows and experts, in a file that needs no JAX as their loop does."""

from keras_moe.types import Tensor


class Pairs:
    """The pairs (row, expert) that experts gather and add up themselves.

    Not a structure that Keras looks into: it would cast the weights to the
    type that the experts compute in.

    Attributes:
        rows: Int32 `(S,)`, the row of each pair, those of an expert together.
        weights: Float32 `(S,)`, or `None` where the pairs' outputs are wanted
            as they are.
    """

    def __init__(self, rows: Tensor, weights: Tensor | None = None) -> None:
        self.rows = rows
        self.weights = weights
