"""A training step on JAX, whose tasks are weighed."""

from collections.abc import Sequence

import keras
from jax import numpy as jnp

from keras_moe.types import Logs
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.tables.jax_row_step import State
from recsys.tables.jax_row_step import finish
from recsys.tables.jax_row_step import forward
from recsys.weighting.weighted_gradients import weighted_gradients


def train_step(
    model: keras.Model, state: State, data: Structure
) -> tuple[Logs, State]:
    """`keras.Model.train_step` with the gradient of the weighted losses.

    Args:
        model: A compiled and built model with a `weighting`, whose
            `compute_loss` returns what `losses_by_task` does.
        state: Values of its trainable and non-trainable variables, of its
            optimizer's, where the weighting's are, and of its metrics'.
        data: A batch, as `fit` draws it.

    Returns:
        The logs and the new state.
    """
    trainable, untrained, optimizer_variables, metrics_variables = state
    done = forward(model, state, data)
    everything = model.trainable_variables

    def pull_back(
        cotangent: Tensor, variables: Sequence[keras.Variable]
    ) -> list[Tensor | None]:
        by_variable = dict(
            zip(map(id, everything), done.pull_back(cotangent), strict=True)
        )
        return [by_variable[id(variable)] for variable in variables]

    variables = model.optimizer.variables
    mapping = list(zip(variables, optimizer_variables, strict=True))
    with keras.StatelessScope(state_mapping=mapping) as scope:
        gradients = weighted_gradients(
            model.weighting, done.loss, pull_back, everything
        )
    weighed = [scope.get_current_value(variable) for variable in variables]
    state = trainable, untrained, weighed, metrics_variables
    return finish(model, state, data, done, gradients, jnp.sum(done.loss))
