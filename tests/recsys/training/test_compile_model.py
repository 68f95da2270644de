from dataclasses import replace
from functools import wraps
from typing import Any
from unittest.mock import Mock

import keras
import numpy as np
import pytest

from keras_moe.optimizers import Adagrad
from keras_moe.optimizers import Adam
from recsys import Dataset
from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.models.build import build_model
from recsys.models.multi_task_model import MultiTaskModel
from recsys.tables import LazyAdam
from recsys.tables import RowwiseAdagrad
from recsys.tables import TableOptimizer
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config


def config_of(dataset: Dataset, **changes: Any) -> ResolvedConfig:
    config = TrainConfig(
        data="synthetic",
        out="run",
        gate="softmax",
        num_experts=2,
        embedding_dim=2,
        expert_units=[2],
        head_units=[2],
        **changes,
    )
    return resolve_config(config, dataset.schema)


@pytest.fixture(scope="module")
def model(tiny: Dataset) -> MultiTaskModel:
    return build_model(config_of(tiny), tiny)


@pytest.mark.skipif(
    keras.backend.backend() == "jax",
    reason="which traces a step for its variables first",
)
def test_the_first_step_creates_no_variables(
    model: MultiTaskModel, tiny: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be traced twice, or follow a call for shapes alone."""
    compile_model(model, config_of(tiny))
    calls = Mock()
    call = type(model).call

    @wraps(call)
    def counted(*arguments: Any, **options: Any) -> Any:
        calls()
        return call(*arguments, **options)

    monkeypatch.setattr(type(model), "call", counted)
    before = [id(variable) for variable in model.variables]
    metrics = model.metrics_variables
    assert all(not np.asarray(variable.value).any() for variable in metrics)
    rows = tiny.split("train")[:4]
    labels = {task: np.ones(4, np.float32) for task in tiny.schema.tasks}
    model.train_on_batch(model.encode(rows), labels)
    assert [id(variable) for variable in model.variables] == before
    assert len(model.metrics_variables) == len(metrics) > 2
    calls.assert_called_once_with()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({}, None),
        ({"table_optimizer": "adam"}, None),
        ({"table_optimizer": "rowwise-adagrad", "min_table_rows": 200}, None),
        (
            {"table_optimizer": "rowwise-adagrad", "min_table_rows": 13},
            RowwiseAdagrad,
        ),
        ({"table_optimizer": "lazy-adam"}, LazyAdam),
        ({"min_table_rows": 13}, LazyAdam),
    ],
)
def test_tables_are_trained_by_rows_from_their_least_size_on(
    changes: dict[str, Any],
    rule: type | None,
    model: MultiTaskModel,
    tiny: Dataset,
) -> None:
    """That of users has 13 rows, and of films as many; that of age has more."""
    compile_model(model, config_of(tiny, **changes))
    optimizer = model.optimizer
    if rule is None:
        assert type(optimizer) is Adam
        return
    assert isinstance(optimizer, TableOptimizer)
    assert type(optimizer.rule) is rule
    assert optimizer.minimum_rows == changes.get("min_table_rows", 1)
    assert type(optimizer.inner) is Adam


def test_the_optimizer_is_the_one_of_the_configuration(
    model: MultiTaskModel, tiny: Dataset
) -> None:
    compile_model(model, config_of(tiny, optimizer="adagrad"))
    assert type(model.optimizer) is Adagrad


@pytest.mark.parametrize("tasks", [["watch"], ["watch", "rating"]])
def test_the_total_is_what_the_tasks_add_up_to(
    tiny: Dataset, tasks: list[str]
) -> None:
    """Without what gates add, which is in the loss of the training."""
    schema = replace(
        tiny.schema, tasks={task: tiny.schema.tasks[task] for task in tasks}
    )
    dataset = replace(tiny, schema=schema)
    config = replace(
        config_of(dataset),
        gate_options={"importance_loss_weight": 1e3},
        unknown_rate=0.0,
        expert_dropout=0.0,
        learning_rate=1e-30,
    )
    model = build_model(config, dataset)
    compile_model(model, config)
    rows = dataset.split("train")[:32]
    rows = rows[rows[tasks].notna().all(axis=1)]
    labels = {task: rows[[task]].to_numpy(np.float32) for task in tasks}
    logs = model.train_on_batch(model.encode(rows), labels, return_dict=True)
    predictions = model.predict(model.encode(rows), verbose=0)
    losses = {
        task: float(model.loss_of(task)(labels[task], predictions[task]))
        for task in tasks
    }
    expected = sum(config.task_weights[task] * losses[task] for task in tasks)
    assert float(logs["total_loss"]) == pytest.approx(expected, rel=1e-4)
    assert float(logs["loss"]) > float(logs["total_loss"]) + 1e-3
    assert not any("total_loss" in one.path for one in model.variables)
