"""Runs the last section of `docs/sequences.md`, on a file of its layout."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.recsys.page_commands import run_commands
from tests.recsys.test_first_model import BLOCK
from tests.recsys.test_first_model import run_in_shell

PAGE = Path(__file__).parents[3] / "docs" / "sequences.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


def test_a_published_file_becomes_a_service(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    quick_python: Path | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "beauty"
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = []  # A user goes on by one item, now and then by two.
    for user in range(80):
        steps = np.append(rng.integers(0, 40), 1 + (rng.random(9) < 0.1))
        items = np.cumsum(steps) % 40 + 1
        lines.append(f"{user} {' '.join(map(str, items))}\n")
    (folder / "sequences.txt").write_text("".join(lines))
    ((language, script),) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert language == "sh"
    run_commands(
        script, lambda part: run_in_shell(part, tmp_path), quick_python
    )
    assert "Traceback" not in capfd.readouterr().err
    (answer,) = json.loads((tmp_path / "answer.json").read_text())[
        "predictions"
    ]
    assert len(set(answer["item"])) == 10
    assert not {12, 7, 31} & set(answer["item"])
    assert {13, 8, 32} & set(answer["item"][:3])  # One follows one of them.
    assert answer["score"] == sorted(answer["score"], reverse=True)
