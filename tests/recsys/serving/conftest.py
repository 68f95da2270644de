from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recsys.serving.runner import load
from recsys.serving.tensor_spec import Runner
from tests.recsys.serving.client import Client
from tests.recsys.serving.saved_models import write_saved_model


@pytest.fixture(scope="session")
def saved_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `1` and `2`: `watch` is once or twice the user."""
    folder = tmp_path_factory.mktemp("saved_models")
    for version in (1, 2):
        write_saved_model(folder / str(version), float(version))
    return folder


@pytest.fixture(scope="session")
def runner(saved_models: Path) -> Runner:
    return load(saved_models / "1")


@pytest.fixture
def client(saved_models: Path) -> Client:
    """Of version 2, the higher one; not more than 5 rows are taken."""
    return Client.of(saved_models, name="m", max_request_rows=5)


@pytest.fixture(scope="session")
def executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)
