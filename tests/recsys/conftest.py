import sys
from collections.abc import Callable
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.data import Dataset
from recsys.data import Schema
from tests.examples import Drawn
from tests.made_once import made_once
from tests.warm_processes import run_alongside

Settings = dict[str, Any]
NewRun = Callable[..., Path]
BeginRun = Callable[..., tuple[Path, Path]]

SCHEMA = Schema(
    "tiny",
    {"user": "id", "film": "id", "age": "number"},
    {"watch": "binary", "rating": "regression"},
)


def _rows(num_rows: int, seed: int) -> pd.DataFrame:
    """Films of odd number are watched, and rated when they are."""
    rng = np.random.default_rng(seed)
    user, film = rng.integers(0, 12, (2, num_rows))
    watch = (film % 2).astype(float)
    age = rng.normal(40, 10, num_rows)
    age[::9] = np.nan
    return pd.DataFrame(
        {
            "user": user,
            "film": [f"é{number}" for number in film],
            "age": age,
            "watch": watch,
            "rating": np.where(watch == 1, 1.0 + film % 5, np.nan),
        }
    )


@pytest.fixture(scope="session", autouse=True)
def _checks_of_exports_are_warm() -> Iterator[None]:
    """Checks exports where TensorFlow is imported; not in `make test-all`."""
    with pytest.MonkeyPatch.context() as patch:
        if Drawn.few and "tensorflow" in sys.modules:
            for module in ("exporting.verification", "api.verify_two_stage"):
                patch.setattr(f"recsys.{module}.run_alongside", run_alongside)
        yield


@pytest.fixture(scope="session")
def tiny() -> Dataset:
    return tiny_dataset()


def tiny_dataset() -> Dataset:
    """160, 40 and 40 rows; integer and string ids; numbers and labels miss.

    Scoring is compiled once for both splits, as their rows are as many.
    """
    return Dataset(
        SCHEMA,
        {
            "train": _rows(160, 0),
            "validation": _rows(40, 1),
            "test": _rows(40, 2),
        },
    )


@pytest.fixture(scope="session")
def data(tiny: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny data set as a folder; not to be changed."""
    return made_once(tmp_path_factory, "tiny", tiny.write)


@pytest.fixture(scope="session")
def settings(data: Path) -> Callable[..., Settings]:
    """Makes the fields of a configuration that trains in a second."""

    def make(out: Path, **changes: Any) -> Settings:
        fields = {
            "data": str(data),
            "out": str(out),
            "gate": "top-k",
            "num_experts": 4,
            "embedding_dim": 4,
            "expert_units": [8],
            "head_units": [4],
            "batch_size": 32,
            "learning_rate": 0.01,
            "epochs": 1,
        }
        return fields | changes

    return make


@pytest.fixture(scope="session")
def new_run(
    settings: Callable[..., Settings],
    tmp_path_factory: pytest.TempPathFactory,
) -> NewRun:
    """Trains with changed fields and returns the folder of the run."""

    def train(**changes: Any) -> Path:
        folder = tmp_path_factory.mktemp("runs") / "run"
        recsys.train(settings(folder, **changes))
        return folder

    return train


@pytest.fixture(scope="session")
def run(
    settings: Callable[..., Settings],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a finished run; not to be changed."""
    weights = {"watch": 0.9}
    return made_once(
        tmp_path_factory,
        "run",
        lambda folder: recsys.train(
            settings(folder, task_weights=weights, epochs=2)
        ),
    )


@pytest.fixture
def other_backend() -> str:
    """A backend that is not the active one."""
    import keras

    return "jax" if keras.backend.backend() != "jax" else "torch"


@pytest.fixture
def begin_run(settings: Callable[..., Settings], tmp_path: Path) -> BeginRun:
    """Trains on one device; the folders of the run and of a part of it."""
    from tests.recsys.distribution.begun_by_one import begin

    return partial(begin, settings, tmp_path)
