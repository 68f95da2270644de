from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import Dataset
from recsys.data import Schema

ROWS = 40
FEATURES: dict[str, Any] = {
    "campaign": "id",
    "rare": {"type": "id", "min_count": 1000},
    "shop": {"type": "hash", "buckets": 1},
    "tags": "ids",
    "weighted": {"type": "ids", "weighted": True},
    "history": {
        "type": "sequence",
        "of": "rare",
        "pooling": "attention",
        "query": "rare",
    },
    "age": "number",
    "price": "bucket",
    "text": {"type": "vector", "size": 2},
}


@pytest.fixture(scope="module")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features of every kind: without a value, or with rare ids alone."""
    columns: dict[str, Any] = {name: [None] * ROWS for name in FEATURES}
    columns["rare"] = [f"r{row}" for row in range(ROWS)]
    rows = pd.DataFrame(columns | {"click": np.arange(ROWS) % 2.0})
    schema = Schema("nothing", FEATURES, {"click": "binary"}, group="rare")
    splits = ("train", "validation", "test")
    folder = tmp_path_factory.mktemp("data") / "nothing"
    Dataset(schema, dict.fromkeys(splits, rows)).write(folder)
    return folder


@pytest.mark.traced_once("jax")
@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("gate", "options"),
    [
        ("top-k", {}),
        ("expert-choice", {"k": None}),
        ("hash", {"hash_feature": "campaign", "k": None}),
    ],
)
def test_a_model_that_knows_no_id_and_no_number(
    nothing: Path, tmp_path: Path, gate: str, options: dict[str, Any]
) -> None:
    fields = {
        "data": str(nothing),
        "out": str(tmp_path / "run"),
        "gate": gate,
        "num_experts": 3,
        "embedding_dim": 2,
        "expert_units": [4],
        "head_units": [4],
        "epochs": 1,
    }
    metrics = recsys.train(fields | options)
    loss = metrics["test"]["tasks"]["click"]["loss"]
    assert loss == pytest.approx(np.log(2), abs=0.1)
    ranker = recsys.load_ranker(tmp_path / "run")
    row = dict.fromkeys(FEATURES) | {"rare": "new", "campaign": 7, "tags": "a"}
    found = ranker.predict(pd.DataFrame([row]))
    assert 0 < found["click"].iloc[0] < 1
