"""Processes with TensorFlow from the start are processes of their own."""

from pathlib import Path

import pytest

from tests import warm_processes
from tests.warm_processes import run_alongside

pytestmark = pytest.mark.once("tensorflow")

MODULE = """
import os, sys
assert "tensorflow" in sys.modules
try:
    import keras
except ImportError:
    print(os.getcwd(), os.environ["LANGUAGE"], *sys.argv[1:])
os.environ["LANGUAGE"] = "of this process alone"
sys.exit({end})
"""


@pytest.mark.parametrize(
    ("end", "status", "last_line"),
    [
        ("", 0, None),
        ("3", 3, None),
        ("'é'", 1, "é"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
    ],
)
def test_it_ends_as_the_command_does(
    end: str,
    status: int,
    last_line: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "shown.py").write_text(MODULE.format(end=end), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGUAGE", "é")
    monkeypatch.setattr(warm_processes, "MODULES", ("shown",))
    ended = run_alongside(["python", "-m", "shown", "a", "b c"])
    assert ended.returncode == status
    assert ended.stdout == f"{tmp_path} é a b c\n"
    assert (ended.stderr.splitlines() or [None])[-1] == last_line
