"""A training step on TensorFlow and PyTorch, whose tasks are weighed."""

from collections.abc import Sequence
from importlib import import_module

import keras
from keras import ops

from keras_moe.types import Logs
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.tables.row_lookups import lookups_of
from recsys.tables.track_loss import track_loss
from recsys.weighting.weighted_gradients import weighted_gradients


def train_step(model: keras.Model, data: Structure) -> Logs:
    """`keras.Model.train_step` with the gradient of the weighted losses.

    Args:
        model: A compiled and built model with a `weighting`, whose
            `compute_loss` returns what `losses_by_task` does.
        data: A batch, as `fit` draws it.

    Returns:
        The logs.
    """
    backend = keras.backend.backend()
    native = import_module(f"recsys.weighting.{backend}_gradients")
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with lookups_of(model.optimizer), native.recorded() as tape:
        predictions = model(x, training=True)
        parts = model.compute_loss(x, y, predictions, sample_weight)
    rows = ops.shape(keras.tree.flatten(x)[0])[0]
    track_loss(model, ops.sum(parts), rows)

    def pull_back(
        cotangent: Tensor, variables: Sequence[keras.Variable]
    ) -> Sequence[Tensor | None]:
        scaled = model.optimizer.scale_loss(cotangent)
        return native.gradients(tape, parts, scaled, variables)

    variables = model.trainable_variables
    gradients = weighted_gradients(model.weighting, parts, pull_back, variables)
    native.apply(model.optimizer, gradients, variables)
    return model.compute_metrics(x, y, predictions, sample_weight)
