import re
import subprocess
import sys
from pathlib import Path

import pytest

import keras_moe
import recsys
from recsys.cli import run

pytestmark = pytest.mark.once("torch")


def test_import_leaves_the_choice_of_the_backend_open() -> None:
    code = (
        "import sys, recsys; from recsys import TrainConfig, load, DataError;"
        "assert 'keras' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_waits_for_no_library_of_tables_or_tensors() -> None:
    code = (
        "import sys; from recsys.cli import run; assert run(['--help']) == 0;"
        "slow = {'keras', 'numpy', 'pandas', 'pyarrow', 'rich'};"
        "assert not slow & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_version_is_said_and_cited(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"recsys {keras_moe.__version__}\n"
    citation = Path(__file__).parents[2] / "CITATION.cff"
    (cited,) = re.findall(r"^version: (.+)$", citation.read_text(), re.M)
    assert cited == keras_moe.__version__


def test_every_name_is_there() -> None:
    for name in dir(recsys):
        assert callable(getattr(recsys, name))


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="'recsys' has no attribute 'x'"):
        _ = recsys.x
