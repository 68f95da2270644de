import re
from typing import Any

import pandas as pd
import pytest

from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.measuring.epoch_choice import EpochChoice
from recsys.tasks import Binary
from recsys.tasks.regression import Regression

pytestmark = pytest.mark.once("torch")

TASKS = {"watch": Binary(), "rating": Regression()}
HISTORY = pd.DataFrame(
    {
        "epoch": [1, 2, 3],
        "val_loss": [0.3, 0.1, 0.2],
        "val_watch_auc": [0.6, 0.5, 0.7],
        "val_rating_rmse": [0.9, 1.0, 1.1],
        "val_retrieval_ndcg@5": [0.1, 0.3, 0.3],
    }
)


def choice(**fields: Any) -> EpochChoice:
    config = TrainConfig(data="data", out="out", metrics_k=5, **fields)
    return EpochChoice.of(ResolvedConfig.of(config), TASKS)


@pytest.mark.parametrize(
    ("fields", "column", "epoch"),
    [
        ({}, "val_loss", 2),
        ({"select": "watch_auc"}, "val_watch_auc", 3),
        ({"select": "rating_rmse"}, "val_rating_rmse", 1),
        ({"retrieval": True}, "val_loss", 2),
        (
            {"retrieval": True, "select": "retrieval"},
            "val_retrieval_ndcg@5",
            2,
        ),
        ({"retrieval": True, "select": "ndcg@5"}, "val_retrieval_ndcg@5", 2),
        ({"retrieval": True, "select": "tasks"}, "val_loss", 2),
        ({"retrieval": True, "tower": "hstu"}, "val_loss", 2),
    ],
)
def test_the_best_epoch(
    fields: dict[str, Any], column: str, epoch: int
) -> None:
    chosen = choice(**fields).chosen(HISTORY)
    value = HISTORY.loc[epoch - 1, column]
    assert chosen == {"by": column, "epoch": epoch, "value": value}


@pytest.mark.parametrize(
    "fields",
    [
        {"select": "retrieval"},
        {"select": "recall@5"},
        {"select": "watch_rmse"},
        {"select": "ndcg@10", "retrieval": True},
    ],
)
def test_a_metric_that_the_run_does_not_have(fields: dict[str, Any]) -> None:
    received = re.escape(f"Received: select={fields['select']!r}")
    with pytest.raises(ValueError, match=f"one of .*watch_auc.*{received}$"):
        choice(**fields)


def test_retrieval_has_defaults_of_its_own_and_options_win() -> None:
    plain = TrainConfig(data="data", out="out")
    assert (plain.learning_rate, plain.epochs, plain.patience) == (None, 10, 3)
    towers = TrainConfig(data="data", out="out", retrieval=True, patience=2)
    assert towers.retrieval_weight == 1
    assert (towers.learning_rate, towers.epochs) == (1e-3, 50)
    assert towers.patience == 2


def test_those_of_a_tower_that_is_trained_before_the_tasks_stay() -> None:
    config = TrainConfig(
        data="data", out="out", retrieval=True, tower="transformer"
    )
    assert (config.learning_rate, config.epochs) == (None, 10)
    assert config.patience == 3
