"""The rerankers of `recsys.retrieval.rerank` in TensorFlow, by the batch.

Axes: B queries, C candidates, D numbers of a vector, T items of a list.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

from recsys.retrieval.rerank.dpp import LEAST_VOLUME
from recsys.retrieval.rerank.dpp import NO_VOLUME

if TYPE_CHECKING:
    import tensorflow as tf

State: TypeAlias = "tuple[tf.Tensor, ...]"
# Gain of a candidate without a score: below that of any with one.
_NO_SCORE = 2 * NO_VOLUME


def mmr_places(
    relevance: "tf.Tensor",
    units: "tf.Tensor",
    scored: "tf.Tensor",
    top: int,
    diversity: float,
) -> "tf.Tensor":
    """As `recsys.retrieval.rerank.mmr.MMR`.

    Args:
        relevance: Float64 `(B, C)` from 0 to 1, the largest first.
        units: Float64 `(B, C, D)`, vectors of length 1, or of zeros.
        scored: Bool `(B, C)`; candidates without a score come last.
        top: T, how many are chosen, at most C.
        diversity: d, from 0 (by relevance alone) to 1.

    Returns:
        Int32 `(B, T)`, places of the items in the order in which they are
        chosen; of equal ones, the first.
    """
    import tensorflow as tf

    def gains(nearest: "tf.Tensor") -> "tf.Tensor":
        return (1 - diversity) * relevance - diversity * nearest

    def choose(
        step: "tf.Tensor", place: "tf.Tensor", nearest: "tf.Tensor"
    ) -> State:
        similar = _cosines(units, place)
        return (tf.where(step == 0, similar, tf.maximum(nearest, similar)),)

    return _greedy(scored, top, gains, choose, (tf.zeros_like(relevance),))


def dpp_places(
    relevance: "tf.Tensor",
    units: "tf.Tensor",
    scored: "tf.Tensor",
    top: int,
    diversity: float,
) -> "tf.Tensor":
    """As `recsys.retrieval.rerank.dpp.DPP`.

    Args:
        relevance: As in `mmr_places`.
        units: The same.
        scored: The same.
        top: The same.
        diversity: The same.

    Returns:
        The same.
    """
    import tensorflow as tf

    weights = (1 - diversity) / diversity * relevance if diversity else None

    def gains(volumes: "tf.Tensor", _: "tf.Tensor") -> "tf.Tensor":
        if weights is None:
            return relevance
        has_volume = volumes > LEAST_VOLUME
        logs = tf.math.log(tf.where(has_volume, volumes, 1.0))
        return tf.where(has_volume, weights + logs, NO_VOLUME + relevance)

    def choose(
        step: "tf.Tensor",
        place: "tf.Tensor",
        volumes: "tf.Tensor",
        factors: "tf.Tensor",
    ) -> State:
        # Rows of the Cholesky factor so far, `(B, T, C)`, zeros behind them.
        chosen = tf.gather(factors, place, axis=2, batch_dims=1)  # (B, T)
        kernel = (1 + _cosines(units, place)) / 2  # (B, C)
        rest = kernel - tf.einsum("bt,btc->bc", chosen, factors)
        volume = tf.gather(volumes, place, batch_dims=1)[:, None]  # (B, 1)
        has_volume = volume > LEAST_VOLUME
        row = rest / tf.sqrt(tf.where(has_volume, volume, 1.0))
        row = tf.where(has_volume, row, 0.0)
        is_step = tf.range(top)[:, None] == step  # (T, 1)
        factors = tf.where(is_step, row[:, None, :], factors)
        return volumes - row**2, factors

    volumes = (1 + tf.reduce_sum(units**2, axis=2)) / 2  # (B, C)
    shape = tf.stack([tf.shape(units)[0], top, tf.shape(units)[1]])
    factors = tf.zeros(shape, units.dtype)
    return _greedy(scored, top, gains, choose, (volumes, factors))


GRAPH_RERANKERS = {"mmr": mmr_places, "dpp": dpp_places}


class GraphReranking:
    """Makes the items of a list differ from each other, under TensorFlow.

    As `recsys.retrieval.rerank.diverse_rows` does, in float64 like that.

    Args:
        rerank: A name among `recsys.retrieval.rerank.RERANKERS`.
        diversity: How much diversity counts, from 0 to 1.
        vectors: Returns the vectors `(B, C, D)` of items by their numbers
            `(B, C)`.
        top: How many items are chosen, at most C.

    Call arguments:
        scores: Float64 tensor `(B, C)` of candidates, the largest first and
            those without a score last.
        scored: Bool tensor `(B, C)`, whether each has a score.
        numbers: Int32 tensor `(B, C)` of items.

    Returns:
        Int32 tensor `(B, top)`, places among the candidates in the order in
        which they are chosen.
    """

    def __init__(
        self,
        rerank: str,
        diversity: float,
        vectors: "Callable[[tf.Tensor], tf.Tensor]",
        top: int,
    ) -> None:
        self._places = GRAPH_RERANKERS[rerank]
        self._diversity = diversity
        self._vectors = vectors
        self._top = top

    def __call__(
        self, scores: "tf.Tensor", scored: "tf.Tensor", numbers: "tf.Tensor"
    ) -> "tf.Tensor":
        import tensorflow as tf

        vectors = tf.cast(self._vectors(numbers), tf.float64)  # (B, C, D)
        lengths = tf.norm(vectors, axis=2, keepdims=True)
        units = tf.math.divide_no_nan(vectors, lengths)
        relevance = _relevance(scores, scored)
        return self._places(
            relevance, units, scored, self._top, self._diversity
        )


def _relevance(scores: "tf.Tensor", scored: "tf.Tensor") -> "tf.Tensor":
    """Scores on a scale from 0, the least, to 1, the largest, `(B, C)`."""
    import tensorflow as tf

    infinite = tf.constant(float("inf"), tf.float64)
    least = tf.reduce_min(tf.where(scored, scores, infinite), 1, keepdims=True)
    most = tf.reduce_max(tf.where(scored, scores, -infinite), 1, keepdims=True)
    spread = most > least
    scale = tf.where(spread, most - least, 1.0)
    return tf.where(scored & spread, (scores - least) / scale, 1.0)


def _cosines(units: "tf.Tensor", place: "tf.Tensor") -> "tf.Tensor":
    """Cosines `(B, C)` of the candidates with one of them, `(B,)`."""
    import tensorflow as tf

    chosen = tf.gather(units, place, batch_dims=1)  # (B, D)
    return tf.einsum("bcd,bd->bc", units, chosen)


def _greedy(
    scored: "tf.Tensor",
    top: int,
    gains: Callable[..., Any],
    choose: Callable[..., Any],
    state: State,
) -> "tf.Tensor":
    """Chooses `top` candidates of each row, in as many steps."""
    import tensorflow as tf

    batch, count = tf.unstack(tf.shape(scored))
    lowest = tf.constant(-float("inf"), tf.float64)

    def step(
        number: "tf.Tensor",
        places: "tf.Tensor",
        is_open: "tf.Tensor",
        *state: "tf.Tensor",
    ) -> State:
        added = tf.where(scored, gains(*state), _NO_SCORE)
        added = tf.where(is_open, added, lowest)
        # Of equal ones `argmax` may return any, `top_k` the first.
        place = tf.math.top_k(added, 1).indices[:, 0]  # (B,)
        places = tf.where(tf.range(top) == number, place[:, None], places)
        is_open &= tf.range(count) != place[:, None]
        return (number + 1, places, is_open, *choose(number, place, *state))

    first = (tf.zeros([batch, top], tf.int32), tf.ones_like(scored))
    return tf.while_loop(
        lambda number, *_: number < top,
        step,
        (tf.constant(0), *first, *state),
        maximum_iterations=top,
    )[1]
