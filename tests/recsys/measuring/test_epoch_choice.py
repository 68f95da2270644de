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


@pytest.mark.parametrize(
    ("given", "rate", "epochs"),
    [
        ({}, 1e-3, 10),
        ({"preset": "movielens"}, 3e-4, 10),
        ({"preset": "movielens", "retrieval": True}, 1e-3, 50),
        ({"retrieval": True, "tower": "dense"}, 1e-3, 50),
        # Trained before the tasks.
        ({"preset": "movielens", "retrieval": True, "tower": "hstu"}, 3e-4, 10),
        ({"retrieval": True, "learning_rate": 0.5, "epochs": 3}, 0.5, 3),
    ],
)
def test_two_towers_have_defaults_of_their_own_and_options_win(
    given: dict[str, Any], rate: float, epochs: int
) -> None:
    config = ResolvedConfig.of(TrainConfig(data="data", out="out", **given))
    assert (config.learning_rate, config.epochs) == (rate, epochs)
