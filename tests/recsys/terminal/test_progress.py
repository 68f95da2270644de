import re
import subprocess
import sys
from pathlib import Path

import pytest

from recsys.terminal.progress import announce
from recsys.terminal.progress import shown_progress


def test_nothing_is_said_to_python(capsys: pytest.CaptureFixture[str]) -> None:
    announce("Reading the data")
    assert capsys.readouterr().out == ""


def test_a_line_has_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress():
        announce("Reading the data")
        with shown_progress(False):
            announce("Not this")
        announce("Training")
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[\d+:\d\d\] Reading the data", first)
    assert second.endswith("] Training")


@pytest.mark.parametrize(
    "command",
    ["train", "tune", "report", "compare", "rerun", "baseline", "reproduce"],
)
def test_the_first_line_comes_before_heavy_imports(
    command: str, tmp_path: Path
) -> None:
    """The program stops as soon as it has been said."""
    code = (
        "import sys; from recsys.terminal import progress\n"
        "def stop(doing):\n"
        "    print(doing, *sorted(sys.modules))\n"
        "    raise SystemExit\n"
        "progress.announce = stop\n"
        f"sys.argv = ['recsys', {command!r}, '--out', 'x']\n"
        "from recsys.__main__ import main; main()"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.startswith(f"Starting recsys {command} ")
    heavy = {"keras", "numpy", "pandas", "typer", "recsys.cli"}
    assert not heavy & set(printed.split())
