from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_non_negative
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="studies")
class LayerwiseDistillation(keras.layers.Layer):
    """Adds to the loss how far a student's layers are from its teacher's.

    With the hidden states `X_l` of the student and `T_l` of the teacher, and
    their predictions `p` and `q`, it adds `weight` times

        sum_l MSE(X_l, T_l) + (KL(p || q) + KL(q || p)) / 2,

    the squared errors being means over tokens that are not padding and over
    their entries, the divergences means over predictions. No gradient reaches
    the teacher.

    Args:
        weight: Number `λ >= 0`; published searches use 1 to 5.
        **kwargs: `name`, `dtype`.

    Call arguments:
        student: Dict: `"logits"` `(b, ..., c)`, and `"states"`, a list of
            `(b, s, d)`.
        teacher: Of the same structure and shapes.
        padding_mask: Tensor `(b, s)`, 0 for padding.
        training: Boolean. The loss is added only when true.

    Returns:
        The student's logits.

    Raises:
        TypeError: If `weight` is not a number.
        ValueError: If `weight < 0`.

    References:
        Zuo et al., MoEBERT: from BERT to Mixture-of-Experts via
        Importance-Guided Adaptation, NAACL 2022, section 3.3.
    """

    def __init__(self, weight: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = check_non_negative("weight", weight)

    def build(self, *shapes: Shape, **more: Shape) -> None:
        """Nothing: there are no weights."""

    def call(
        self,
        student: dict[str, Any],
        teacher: dict[str, Any],
        padding_mask: Tensor,
        training: bool | None = None,
    ) -> Tensor:
        if training:
            loss = prediction_divergence(student["logits"], teacher["logits"])
            for state, target in zip(
                student["states"], teacher["states"], strict=True
            ):
                loss = loss + state_error(state, target, padding_mask)
            self.add_loss(self.weight * loss)
        return student["logits"]

    def compute_output_shape(
        self, student_shape: dict[str, Any], *others: Any, **more: Any
    ) -> Shape:
        return tuple(student_shape["logits"])

    def get_config(self) -> Config:
        return {**super().get_config(), "weight": self.weight}


def state_error(states: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """The mean squared error of hidden states of tokens.

    Args:
        states: Tensor `(b, s, d)`.
        targets: Tensor `(b, s, d)`.
        mask: Tensor `(b, s)`, 0 for the tokens that do not count.

    Returns:
        Scalar.
    """
    counts = ops.cast(mask, states.dtype)
    errors = ops.mean(
        ops.square(states - ops.stop_gradient(targets)), axis=-1
    )  # (b, s)
    return ops.sum(errors * counts) / ops.sum(counts)


def prediction_divergence(logits: Tensor, targets: Tensor) -> Tensor:
    """The Kullback-Leibler divergence of predictions, the mean both ways.

    With `p` and `q` the softmax of both over the last axis,
    `(KL(p || q) + KL(q || p)) / 2 = sum((p - q) (log p - log q)) / 2`.

    Args:
        logits: Tensor `(..., c)`.
        targets: Tensor `(..., c)`.

    Returns:
        Scalar, the mean over the other axes.
    """
    ours = ops.log_softmax(logits, axis=-1)
    theirs = ops.log_softmax(ops.stop_gradient(targets), axis=-1)
    divergences = (ops.exp(ours) - ops.exp(theirs)) * (ours - theirs)
    return ops.mean(ops.sum(divergences, axis=-1)) / 2
