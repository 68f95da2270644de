"""The published MovieLens-1M ranker, and batches of its size."""

from typing import Any

import numpy as np
import pandas as pd

from recsys import Dataset
from recsys import Ranker
from recsys import Schema
from recsys import TrainConfig
from recsys.models.build import build_ranker
from recsys.training.compile_model import compile_model
from recsys.training.resolve_config import resolve_config

USERS, ITEMS = 6040, 3706

SCHEMA = Schema(
    "movielens-1m",
    {"user": "id", "item": "id"},
    {"watch": "binary", "rating": "regression"},
)


def make_ranker(**settings: Any) -> Ranker:
    """A compiled, untrained ranker; `settings` are fields of `TrainConfig`."""
    config = TrainConfig(
        "movielens-1m",
        "unused",
        unknown_rate=0.01,
        standardize_targets=False,
        **settings,
    )
    config = resolve_config(config, SCHEMA)
    ranker = build_ranker(config, Dataset(SCHEMA, {"train": _every_id()}))
    compile_model(ranker, config)
    return ranker


def make_rows(rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Random inputs and labels."""
    rng = np.random.default_rng(0)
    inputs = {
        "user": rng.integers(1, USERS + 1, rows).astype("int32"),
        "item": rng.integers(1, ITEMS + 1, rows).astype("int32"),
    }
    labels = {
        "watch": rng.integers(0, 2, (rows, 1)).astype("float32"),
        "rating": rng.uniform(1, 5, (rows, 1)).astype("float32"),
    }
    return inputs, labels


def _every_id() -> pd.DataFrame:
    users = np.arange(USERS)
    columns = {"user": users, "item": users % ITEMS}
    return pd.DataFrame(columns).assign(watch=1.0, rating=3.0)
