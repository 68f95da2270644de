from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

import keras
import numpy as np

from keras_moe.layers import CGC
from keras_moe.layers import PLE
from keras_moe.layers import HoME
from keras_moe.layers import MMoE
from keras_moe.layers import MoE
from keras_moe.optimizers import Adagrad
from keras_moe.optimizers import Adam
from recsys.config.optimizers import OPTIMIZERS
from recsys.config.optimizers import TABLE_RULES
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.weightings import WEIGHTINGS
from recsys.distribution.process_group import num_shares
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_tower import SharedTower
from recsys.models.two_tower import TwoTower
from recsys.retrieval.retrieval import RETRIEVAL_LOSS
from recsys.tables import RowRule
from recsys.tables import TableOptimizer
from recsys.tables.marks import marks
from recsys.weighting.task_weighting import TaskWeighting


def compile_model(model: MultiTaskModel, config: ResolvedConfig) -> None:
    """Gives a model the optimizer and the losses that it is trained with."""
    min_rows = config.min_table_rows
    by_rows = any(
        marks(variable).is_table and variable.shape[0] >= min_rows
        for variable in model.trainable_variables
    )
    model.compile(
        create_optimizer(
            config.optimizer,
            config.learning_rate,
            config.table_optimizer if by_rows else None,
            config.table_learning_rate,
            min_rows,
        ),
        loss={task: model.loss_of(task) for task in model.tasks},
        loss_weights=config.task_weights,
    )
    finds = isinstance(model, TwoTower) and model.part != "tasks"
    model.log_losses([RETRIEVAL_LOSS] if finds else [])
    # `fit` would on TensorFlow take the memory of the largest slot twice.
    model.optimizer.build(model.trainable_variables)
    if keras.backend.backend() != "jax":
        _create_loss_metrics(model)
    if config.weighting != "fixed":
        model.weighting = create_weighting(
            config.weighting,
            config.task_weights,
            shared_weights=shared_weights(model),
            squared_errors=[
                task
                for task, kind in model.tasks.items()
                if kind.squares_errors
            ],
            seed=config.seed,
        )
        model.weighting.build(model.optimizer)


def create_weighting(
    name: str, task_weights: Mapping[str, float], **options: Any
) -> TaskWeighting:
    """Creates a method of weighing.

    Args:
        name: One of `WEIGHTINGS`.
        task_weights: The fixed weight of each task's loss.
        **options: Those of `TaskWeighting` and of the method.
    """
    kind: type[TaskWeighting] = resolve_name(WEIGHTINGS[name])
    return kind(task_weights, **options)


def _create_loss_metrics(model: MultiTaskModel) -> None:
    """Creates the means of losses that Keras would in the first step.

    TensorFlow traces a step that creates variables twice, which is a fifth of
    what a short training takes. On PyTorch, Keras calls the model once more,
    for shapes alone, which is a tenth.
    """
    if num_shares() > 1:
        return  # Keras creates them on every replica.
    none = model.no_predictions()
    predictions = {
        task: np.ones((1, *none[task].shape[1:]), np.float32) for task in none
    }
    labels = dict.fromkeys(predictions, np.ones(1, np.float32))
    model.compute_loss(y=labels, y_pred=predictions)
    model.reset_metrics()


# Keras's own, with a step that is one pass over the weights.
_CLASSES = {"adam": Adam, "adagrad": Adagrad}


def create_optimizer(
    name: str,
    learning_rate: float,
    table_optimizer: str | None = None,
    table_learning_rate: float | None = None,
    min_table_rows: int = 1,
) -> keras.optimizers.Optimizer:
    """Creates an optimizer with its settings of `recsys.config.optimizers`.

    Args:
        name: Name of the optimizer.
        learning_rate: Its learning rate.
        table_optimizer: Name of what trains tables by rows; as all else is
            trained unless it is one of `TABLE_RULES`.
        table_learning_rate: The learning rate of tables that are trained by
            rows; that of all else unless given.
        min_table_rows: Rows that such a table has at least.
    """
    optimizer = _CLASSES[name](learning_rate, **OPTIMIZERS[name])
    if table_optimizer is None or table_optimizer not in TABLE_RULES:
        return optimizer
    factor = 1.0
    if table_learning_rate is not None:
        factor = table_learning_rate / learning_rate
    rule: RowRule = resolve_name(TABLE_RULES[table_optimizer])()
    return TableOptimizer(optimizer, rule, min_table_rows, factor)


def shared_weights(model: MultiTaskModel) -> list[keras.Variable]:
    """Returns the last trainable weights that the losses of all tasks share.

    They are those of the experts that all tasks have, of the last level where
    there are several, or of the shared bottom. Gates, heads and experts of one
    task's own are not among them.

    Args:
        model: A built model.
    """
    layer = model.mixture
    if isinstance(layer, SharedTower):
        layer = layer.layer
    if isinstance(layer, PLE):
        layer = layer.levels[-1]
    if isinstance(layer, HoME):
        layer = layer.tasks
    if isinstance(layer, MMoE | MoE):
        shared = layer.shared_experts
        of_shared = [] if shared is None else shared.trainable_variables
        return [*layer.experts.trainable_variables, *of_shared]
    if isinstance(layer, CGC):
        layer = layer.shared_experts
    return list(layer.trainable_variables)
