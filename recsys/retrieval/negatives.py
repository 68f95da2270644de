"""Negatives of a retrieval loss: the items that a row's own is compared with.

`keras_rs.layers.RemoveAccidentalHits` is not used: up to version 0.4.0 it adds
1e-40 to the logits of accidental hits, the smallest positive float32 by 100,
where the most negative one is meant, and so leaves all of them where they are.
"""

from typing import ClassVar
from typing import NamedTuple

import keras
import keras_rs
from keras import ops

from keras_moe.types import Tensor

# Below the score of any candidate, and finite.
NO_CANDIDATE = -1e30
_LEAST_SHARE = 1e-30


class Items(NamedTuple):
    """N items that queries are compared with.

    Attributes:
        vectors: Float32 tensor `(N, D)`.
        numbers: Integer tensor `(N,)`, which items these are.
        corrections: Float32 tensor `(N,)`, added to their scores.
    """

    vectors: Tensor
    numbers: Tensor
    corrections: Tensor


class Candidates(NamedTuple):
    """Scores of the C items that each of B rows is compared on.

    Attributes:
        scores: Float32 tensor `(B, C)`.
        positives: Boolean tensor `(B, C)`, the item of the row: one in each.
        counted: Boolean tensor `(B, C)`, the item of the row and its
            negatives. Another occurrence of its item is not counted: the item
            is no negative of itself.
    """

    scores: Tensor
    positives: Tensor
    counted: Tensor


class Negatives:
    """The items of the other rows of the batch.

    They occur as often as in the data.

    Args:
        num_items: Integer, the number of items, numbered from 1.
        count: Integer, the number of items to draw for a batch.
    """

    # Whether items are compared with that are not of the rows.
    draws: ClassVar[bool] = False

    def __init__(self, num_items: int, count: int) -> None:
        self.num_items = num_items
        self.count = count

    def num_candidates(self, num_rows: int) -> int:
        """Returns how many candidates a row of a batch has.

        Args:
            num_rows: Integer, the number of rows in the batch.
        """
        return num_rows

    def draw(self, seed: keras.random.SeedGenerator | None) -> Tensor:
        """Returns the items beside those of the rows, int32 `(N,)`."""
        raise NotImplementedError

    def expected_counts(self, shares: Tensor, num_rows: int | Tensor) -> Tensor:
        """Returns how often items are candidates, but for a constant factor.

        Args:
            shares: Float tensor, the share of the data's rows with each item.
            num_rows: Integer, the number of rows in the batch.
        """
        return ops.maximum(shares, _LEAST_SHARE)

    def candidates(
        self, queries: Tensor, items: Items, drawn: Items | None
    ) -> Candidates:
        """Scores the items of a batch.

        Args:
            queries: Float32 tensor `(B, D)`, a vector for each row.
            items: The items of the rows.
            drawn: Those that `draw` has returned; `None` unless it `draws`.
        """
        rows = ops.arange(ops.shape(queries)[0])
        positives = rows[:, None] == rows[None, :]
        negatives = items.numbers[:, None] != items.numbers[None, :]
        return Candidates(
            score(queries, items),
            positives,
            ops.logical_or(positives, negatives),
        )


class UniformNegatives(Negatives):
    """Items drawn uniformly, with replacement, for all rows of a batch."""

    draws = True

    def num_candidates(self, num_rows: int) -> int:
        return 1 + self.count

    def draw(self, seed: keras.random.SeedGenerator | None) -> Tensor:
        return keras.random.randint(
            (self.count,), 1, self.num_items + 1, seed=seed
        )

    def expected_counts(self, shares: Tensor, num_rows: int | Tensor) -> Tensor:
        return ops.ones_like(shares)

    def candidates(
        self, queries: Tensor, items: Items, drawn: Items | None
    ) -> Candidates:
        score = ops.sum(queries * items.vectors, axis=-1) + items.corrections
        positives = ops.ones_like(score[:, None], dtype="bool")
        return _beside(
            Candidates(score[:, None], positives, positives),
            queries,
            items,
            drawn,
        )


class MixedNegatives(UniformNegatives):
    """The items of the other rows, and items drawn uniformly."""

    def num_candidates(self, num_rows: int) -> int:
        return num_rows + self.count

    def expected_counts(self, shares: Tensor, num_rows: int | Tensor) -> Tensor:
        return ops.cast(num_rows, "float32") * shares + (
            self.count / self.num_items
        )

    def candidates(
        self, queries: Tensor, items: Items, drawn: Items | None
    ) -> Candidates:
        batch = Negatives.candidates(self, queries, items, drawn)
        return _beside(batch, queries, items, drawn)


class AllItems(UniformNegatives):
    """All other items of the catalogue."""

    def num_candidates(self, num_rows: int) -> int:
        return self.num_items

    def draw(self, seed: keras.random.SeedGenerator | None) -> Tensor:
        return ops.arange(1, self.num_items + 1, dtype="int32")

    def candidates(
        self, queries: Tensor, items: Items, drawn: Items | None
    ) -> Candidates:
        assert drawn is not None, "asked for by `draws`"
        positives = items.numbers[:, None] == drawn.numbers[None, :]
        return Candidates(
            score(queries, drawn), positives, ops.ones_like(positives)
        )


def score(queries: Tensor, items: Items) -> Tensor:
    """Returns dot products with a correction, `(B, N)`.

    Args:
        queries: Float32 tensor `(B, D)`.
        items: N of them.
    """
    products = ops.matmul(queries, ops.transpose(items.vectors))
    return products + items.corrections[None, :]


def hardest(candidates: Candidates, count: int) -> Candidates:
    """Returns a row's own item and its negatives with the highest scores.

    Args:
        candidates: The candidates of all rows.
        count: The number of negatives to keep for each row; all, if there
            are fewer.
    """
    keep = keras_rs.layers.HardNegativeMining(count, dtype="float32")
    scores = ops.where(candidates.counted, candidates.scores, NO_CANDIDATE)
    scores, positives = keep(scores, ops.cast(candidates.positives, "float32"))
    return Candidates(scores, positives > 0, scores > NO_CANDIDATE / 2)


def _beside(
    candidates: Candidates, queries: Tensor, items: Items, drawn: Items | None
) -> Candidates:
    """Adds drawn items to the candidates."""
    assert drawn is not None, "asked for by `draws`"
    counted = items.numbers[:, None] != drawn.numbers[None, :]
    more = Candidates(score(queries, drawn), ops.zeros_like(counted), counted)
    return Candidates(
        *(
            ops.concatenate(pair, axis=-1)
            for pair in zip(candidates, more, strict=True)
        )
    )
