from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.cli import run as command
from recsys.data import Dataset
from recsys.data import Schema
from tests.made_once import made_once
from tests.recsys.retrieval.id_kinds import IdKinds

SCHEMA = Schema(
    "films",
    {
        "user": "id",
        "item": "id",
        "genres": "ids",
        "age": "number",
        "history": {
            "type": "sequence",
            "of": "item",
            "length": 3,
            "pooling": "attention",
            "query": "item",
        },
    },
    {"watch": "binary", "rating": "regression"},
)

SCORE = "watch^0.7 * rating"


@pytest.fixture(scope="session", params=[False, True], ids=["ints", "texts"])
def ids(request: pytest.FixtureRequest) -> IdKinds:
    """What all that follows is tried with."""
    return IdKinds(texts=request.param)


def _rows(num_rows: int, seed: int, ids: IdKinds) -> pd.DataFrame:
    """Users watch the films whose number has the remainder of their own."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 12, num_rows), rng.integers(0, 30, num_rows)
    if seed:  # Films that the training split does not know.
        item[::10] = 99
    watch = (user % 3 == item % 3).astype(float)
    return pd.DataFrame(
        {
            "user": [ids.user(number) for number in user],
            "item": ids.items(item),
            "genres": [[f"g{number % 3}"] for number in item],
            "age": 20.0 + user,
            "history": [
                np.array(ids.items(rng.integers(0, 30, n % 4)), ids.types[1])
                for n in range(num_rows)
            ],
            "watch": watch,
            "rating": np.where(watch == 1, 3.0 + item % 2, np.nan),
        }
    )


@pytest.fixture(scope="session")
def films(ids: IdKinds) -> Dataset:
    """Films of which each user watches a third."""
    parts = {"train": (600, 0), "validation": (90, 1), "test": (80, 2)}
    titles = [f"Film [{number}]" for number in range(29)]  # 29 has none.
    return Dataset(
        SCHEMA,
        {name: _rows(*given, ids) for name, given in parts.items()},
        items=pd.DataFrame({"item": ids.items(range(29)), "title": titles}),
    )


@pytest.fixture(scope="session")
def films_folder(
    films: Dataset, ids: IdKinds, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    return made_once(tmp_path_factory, f"films-{ids.name}", films.write)


@pytest.fixture(scope="session")
def fields(films_folder: Path) -> Callable[..., dict[str, Any]]:
    """Makes the fields of a configuration that trains in seconds."""

    def make(out: Path, **changes: Any) -> dict[str, Any]:
        given = {
            "data": str(films_folder),
            "out": str(out),
            "retrieval": True,
            "retrieval_weight": 1.0,
            # In one go: tests/recsys/retrieval/test_parts.py has the default.
            "select": "retrieval",
            # The same films are watched again.
            "retrieval_exclude_seen": False,
            "gate": "top-k",
            "num_experts": 4,
            "embedding_dim": 8,
            "expert_units": [8],
            "expert_dropout": 0.0,
            "head_units": [8],
            "batch_size": 64,
            "learning_rate": 0.03,
            "epochs": 7,
            "patience": 7,
            "metrics_k": 5,
        }
        return given | changes

    return make


@pytest.fixture(scope="session")
def retrieving_run(
    fields: Callable[..., dict[str, Any]],
    ids: IdKinds,
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a finished run with retrieval; not to be changed.

    Of the epoch that is best for the tasks, which take longer here.
    """
    return made_once(
        tmp_path_factory,
        f"retrieving-{ids.name}",
        lambda folder: train_quickly(fields(folder, select="tasks")),
    )


@pytest.fixture(scope="session")
def exported(
    retrieving_run: Path, ids: IdKinds, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Its two stages in one model, with an index beside it."""

    def export(out: Path) -> None:
        options = ["--run", str(retrieving_run), "--out", str(out)]
        options += ["--score", SCORE, "--top", "4", "--candidates", "12"]
        options += ["--index", "hnsw", "--recall", "1", "--expert-weights"]
        assert command(["export", "--two-stage", *options]) == 0

    return made_once(tmp_path_factory, f"served-{ids.name}", export) / "1"
