"""How much each neuron of a feed-forward layer matters, and who gets it."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.types import Tensor

# The kernels `(d, h)` and `(h, d)` of a feed-forward layer with `h` neurons.
FeedForward = tuple[keras.Variable, keras.Variable]


def neuron_importance(
    model: keras.Model,
    feed_forwards: Sequence[FeedForward],
    inputs: Any,
    labels: np.ndarray,
    loss: keras.losses.Loss,
    batch_size: int = 1,
) -> list[np.ndarray]:
    """Estimates what the loss would change by without each neuron.

    To first order, neuron `j` with the incoming weights `v_j` and the
    outgoing weights `w_j` matters

        I_j = sum over batches of |v_j · dL/dv_j + w_j · dL/dw_j|,

    with the mean loss `L` of the batch, and without dropout. No weight of the
    model changes.

    Args:
        model: A model with one output.
        feed_forwards: Both kernels of each layer, `(d, h)` and `(h, d)`,
            variables of the model.
        inputs: What the model takes.
        labels: What the loss takes.
        loss: The loss.
        batch_size: Integer, defaults to 1: the gradients of each example on
            its own, as published. Larger batches cost less; examples that
            pull a neuron in opposite directions cancel each other.

    Returns:
        Importances `(h,)` for each feed-forward layer.

    References:
        Zuo et al., MoEBERT: from BERT to Mixture-of-Experts via
        Importance-Guided Adaptation, NAACL 2022, section 3.2.
    """
    observed = _Inference(model)
    importance = _Importance(feed_forwards)
    importance.build(model.trainable_variables)
    observed.compile(importance, loss)
    observed.fit(
        inputs, labels, batch_size=batch_size, shuffle=False, verbose=0
    )
    return [ops.convert_to_numpy(scores) for scores in importance.scores]


def deal_neurons(
    importance: np.ndarray, num_experts: int, num_shared: int, units: int
) -> np.ndarray:
    """Deals the neurons of a feed-forward layer out to experts.

    The `num_shared` most important ones go to every expert. The others are
    dealt one by one, the next in importance to the next expert, until each
    has `units`; what is left then, the least important ones, goes to none.

    Args:
        importance: Array `(h,)`.
        num_experts: Integer `n >= 1`.
        num_shared: Integer in `[0, units]`.
        units: Integer, the neurons of each expert, at most as many as there
            are to deal: `num_shared + (h - num_shared) // num_experts`.

    Returns:
        Integers `(n, units)`, the neurons of each expert, the shared ones
        first.

    Raises:
        TypeError: If an argument is not an integer.
        ValueError: If one is outside of its range.

    Example:
    >>> importance = np.array([0.1, 0.9, 0.5, 0.7])
    >>> deal_neurons(importance, num_experts=2, num_shared=2, units=3).tolist()
    [[1, 3, 2], [1, 3, 0]]

    References:
        As `neuron_importance`, section 3.2 and figure 1.
    """
    check_integer("num_experts", num_experts, 1)
    check_integer("num_shared", num_shared, 0)
    check_integer("units", units, 1)
    most = num_shared + (len(importance) - num_shared) // num_experts
    if not num_shared <= units <= most:
        raise ValueError(
            f"`units` must be in [{num_shared}, {most}] for {len(importance)} "
            f"neurons, {num_shared} of them shared by {num_experts} experts. "
            f"Received: units={units}"
        )
    # Stable, so that equal ones are dealt in the same order everywhere.
    order = np.argsort(-importance, kind="stable")
    shared = np.tile(order[:num_shared], (num_experts, 1))  # (n, shared)
    dealt = order[num_shared:][: (units - num_shared) * num_experts]
    own = dealt.reshape(-1, num_experts).T  # (n, units - shared)
    return np.concatenate([shared, own], axis=1)


class _Inference(keras.Model):
    """A model that also in training does what it does in inference."""

    def __init__(self, model: keras.Model) -> None:
        # TensorFlow takes no scope that begins with an underscore.
        super().__init__(name="inference")
        self.model = model

    def call(self, inputs: Any) -> Tensor:
        return self.model(inputs, training=False)


class _Importance(keras.optimizers.Optimizer):
    """Adds up importances instead of changing weights.

    Every backend hands its gradients to an optimizer.
    """

    def __init__(self, feed_forwards: Sequence[FeedForward]) -> None:
        super().__init__(learning_rate=0.0, name="importance")
        # An attribute would make variables of the optimizer of them.
        self.feed_forwards: Callable[[], Sequence[FeedForward]] = lambda: (
            feed_forwards
        )

    def build(self, variables: Sequence[keras.Variable]) -> None:
        super().build(variables)
        self.places = {id(variable): i for i, variable in enumerate(variables)}
        self.scores = [
            self.add_variable((incoming.shape[1],), name=f"importance_{i}")
            for i, (incoming, _) in enumerate(self.feed_forwards())
        ]

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        for scores, (incoming, outgoing) in zip(
            self.scores, self.feed_forwards(), strict=True
        ):
            change = ops.sum(  # (h,)
                incoming * grads[self.places[id(incoming)]], axis=0
            ) + ops.sum(outgoing * grads[self.places[id(outgoing)]], axis=1)
            scores.assign_add(ops.abs(change))
