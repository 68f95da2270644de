from pathlib import Path

import pytest

from tests.fuzz import corpus


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the corpus."""
    folder = tmp_path_factory.mktemp("fuzz") / "corpus"
    corpus.build(folder)
    return folder
