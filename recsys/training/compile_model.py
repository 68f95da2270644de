from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any

import keras
import numpy as np

from recsys.config.resolved_config import ResolvedConfig
from recsys.config.weightings import WEIGHTINGS
from recsys.distribution.process_group import num_shares
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.shared_weights import shared_weights
from recsys.retrieval.retrieval import RETRIEVAL_LOSS
from recsys.tables.marks import marks
from recsys.training.create_optimizer import create_optimizer
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
    model.log_losses([RETRIEVAL_LOSS] if config.retrieval else [])
    # `fit` would on TensorFlow take the memory of the largest slot twice.
    model.optimizer.build(model.trainable_variables)
    if keras.backend.backend() == "tensorflow":
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
    what a short training takes.
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
