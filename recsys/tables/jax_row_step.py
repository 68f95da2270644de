"""A training step on JAX, with gradients of the rows that were looked up.

A gradient is as large as what it is of, on JAX: that of a table has all rows.
So nothing is differentiated by a table. To the rows that each lookup returns,
zeros are added, and what is differentiated by are these zeros: their gradient
is that of the rows.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import jax
import keras
from jax import numpy as jnp

from keras_moe.types import Logs
from keras_moe.types import Structure
from keras_moe.types import Tensor
from recsys.private_names import loss_and_updates
from recsys.tables.jax_rows import look_up
from recsys.tables.jax_split import look_up_split
from recsys.tables.marks import marks
from recsys.tables.row_gradient import RowGradient
from recsys.tables.row_lookups import RowLookups
from recsys.tables.row_lookups import TrainsByRows
from recsys.tables.row_lookups import rows_of
from recsys.tables.track_loss import track_loss

State = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


class _JaxLookups(RowLookups):
    """Lookups that write down their ids, and add zeros if there are any.

    Attributes:
        tables: The table of each lookup, in their order.
        ids: What each lookup was given.
    """

    def __init__(
        self, optimizer: TrainsByRows, zeros: list[Tensor] | None = None
    ) -> None:
        super().__init__(optimizer)
        self.zeros = zeros
        self.tables: list[keras.Variable] = []
        self.ids: list[Tensor] = []

    def lookup(self, table: keras.Variable, ids: Tensor) -> Tensor:
        value, split = jax.lax.stop_gradient(table.value), marks(table).split
        if split is None:
            rows = look_up(value, ids)
        else:
            rows = look_up_split(value, ids, split)
        self.tables.append(table)
        self.ids.append(ids)
        if self.zeros is None:
            return rows
        return rows + self.zeros[len(self.ids) - 1]


class Forward(NamedTuple):
    """The results of a step's forward pass.

    Attributes:
        loss: The loss, or several of them in one tensor.
        pull_back: Returns the gradients of the loss, times what it is given,
            by each trainable variable: `RowGradient`s of tables.
        predictions: What the model returned.
        untrained: New values of the non-trainable variables.
        metrics_variables: New values of the metrics' variables.
    """

    loss: Tensor
    pull_back: Callable[[Tensor], list[Any]]
    predictions: Structure
    untrained: list[Tensor]
    metrics_variables: list[Tensor]


def train_step(
    model: keras.Model, state: State, data: Structure
) -> tuple[Logs, State]:
    """`keras.Model.train_step` on JAX, with `RowGradient`s for tables.

    Args:
        model: A compiled and built Keras model.
        state: Values of its trainable and non-trainable variables, of its
            optimizer's and of its metrics'.
        data: A batch, as `fit` draws it.

    Returns:
        The logs and the new state.

    Raises:
        ValueError: Something else than a lookup uses a table.
    """
    done = forward(model, state, data)
    gradients = done.pull_back(jnp.ones_like(done.loss))
    return finish(model, state, data, done, gradients, done.loss)


def forward(model: keras.Model, state: State, data: Structure) -> Forward:
    """The forward pass of a step.

    The arguments and errors are those of `train_step`.
    """
    trainable, untrained, optimizer_variables, metrics_variables = state
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    by_rows = rows_of(model.optimizer)

    def loss_of(
        trainable: list[Tensor],
        zeros: list[Tensor] | None,
        tables: list[keras.Variable],
    ) -> tuple[Any, Any]:
        trainable = [
            _guarded(value, variable)
            if by_rows.trains_by_rows(variable)
            else value
            for value, variable in zip(
                trainable, model.trainable_variables, strict=True
            )
        ]
        with _JaxLookups(by_rows, zeros) as lookups:
            scaled, rest = loss_and_updates(
                model,
                trainable,
                untrained,
                metrics_variables,
                x,
                y,
                sample_weight,
                training=True,
                optimizer_variables=optimizer_variables,
            )
        tables[:] = lookups.tables
        return scaled, (rest, lookups.ids)

    tables: list[keras.Variable] = []
    # Traced, not run: only the shapes of the ids are known before a step.
    ids = jax.eval_shape(lambda: loss_of(trainable, None, tables)[1][1])
    zeros = [
        jnp.zeros((*shaped.shape, table.shape[1]), table.dtype)
        for shaped, table in zip(ids, tables, strict=True)
    ]
    _, differentiate, (rest, ids) = jax.vjp(
        lambda trainable, zeros: loss_of(trainable, zeros, tables),
        trainable,
        zeros,
        has_aux=True,
    )

    def pull_back(cotangent: Tensor) -> list[Any]:
        gradients, of_rows = differentiate(cotangent)
        by_table = _by_table(tables, ids, of_rows)
        return [
            by_table.get(id(variable), gradient)
            for variable, gradient in zip(
                model.trainable_variables, gradients, strict=True
            )
        ]

    loss, predictions, untrained, metrics_variables = rest
    return Forward(loss, pull_back, predictions, untrained, metrics_variables)


def finish(
    model: keras.Model,
    state: State,
    data: Structure,
    done: Forward,
    gradients: Sequence[Any],
    loss: Tensor,
) -> tuple[Logs, State]:
    """Applies the gradients of a step and updates the metrics.

    Args:
        model: A compiled and built Keras model.
        state: The state before the step.
        data: The batch.
        done: What `forward` returned.
        gradients: The gradient of each trainable variable.
        loss: Scalar, the loss to be logged.

    Returns:
        The logs and the new state.
    """
    trainable, _, optimizer_variables, _ = state
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    trainable, optimizer_variables = model.optimizer.stateless_apply(
        optimizer_variables, gradients, trainable
    )
    logs, metrics_variables = _measure(
        model,
        done.metrics_variables,
        loss,
        x,
        y,
        done.predictions,
        sample_weight,
    )
    return logs, (
        trainable,
        done.untrained,
        optimizer_variables,
        metrics_variables,
    )


def _guarded(value: Tensor, table: keras.Variable) -> Tensor:
    """The value of a table that raises an error if it is differentiated by."""
    guard = jax.custom_vjp(lambda value: value)

    def forward(value: Tensor) -> tuple[Tensor, None]:
        return value, None

    def backward(_: None, gradient: Tensor) -> tuple[Tensor]:
        raise ValueError(
            "A table that is trained by rows must be used by lookups alone. "
            f"Received: a gradient {gradient.shape} for all rows of "
            f"{table.path!r}, such as a regularizer has"
        )

    guard.defvjp(forward, backward)
    return guard(value)


def _by_table(
    tables: list[keras.Variable], ids: list[jax.Array], of_rows: list[jax.Array]
) -> Mapping[int, RowGradient]:
    """The gradient of each table, of all its lookups one after the other."""
    by_table: dict[int, RowGradient] = {}
    for table, rows, values in zip(tables, ids, of_rows, strict=True):
        values = values.reshape(-1, table.shape[1])
        rows = rows.reshape(-1)
        if id(table) in by_table:
            before = by_table[id(table)]
            values = jnp.concatenate([before.values, values])
            rows = jnp.concatenate([before.indices, rows])
        by_table[id(table)] = RowGradient(values, rows)
    return by_table


def _measure(
    model: keras.Model,
    metrics_variables: list[Tensor],
    loss: Tensor,
    x: Structure,
    y: Structure,
    predictions: Structure,
    sample_weight: Structure,
) -> tuple[Logs, list[Tensor]]:
    """The logs after the step, and the new values of the metrics' variables."""
    mapping = list(zip(model.metrics_variables, metrics_variables, strict=True))
    with keras.StatelessScope(state_mapping=mapping) as scope:
        examples = next(
            part for part in keras.tree.flatten(x) if part is not None
        )
        track_loss(model, loss, len(examples))
        logs = model.compute_metrics(x, y, predictions, sample_weight)
    return logs, [
        scope.get_current_value(variable)
        for variable in model.metrics_variables
    ]
