from pathlib import Path

import keras
import pytest

from tests.fuzz import corpus
from tests.fuzz.cases import Accepted
from tests.fuzz.cases import Case
from tests.fuzz.cases import run_command
from tests.fuzz.cases import set_up
from tests.fuzz.cases import verdict

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        keras.backend.backend() != "torch",
        reason="files are read alike on every backend; PyTorch starts first",
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    corpus.build(folder)
    return folder


@pytest.mark.parametrize("target", corpus.TARGETS, ids=str)
def test_what_is_mutated_is_valid_before(
    target: corpus.Target,
    built: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = set_up(target, built, tmp_path / "case")
    files = [*(tmp_path / "case").glob(target.files)]
    assert any(file.is_file() for file in files)
    status = run_command(words, tmp_path / "case")
    printed = capfd.readouterr()
    assert isinstance(status, Accepted) or status == 0, printed.err
    case = Case(words, files[0])
    assert verdict(case, status, printed.out, printed.err) is None
