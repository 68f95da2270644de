"""Runs the commands of `docs/one_model_any_budget.md`."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.recsys.page_commands import run_commands
from tests.recsys.test_first_model import BLOCK
from tests.recsys.test_first_model import ROOT
from tests.recsys.test_first_model import run_in_shell

PAGE = ROOT / "docs" / "one_model_any_budget.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


def test_one_file_serves_every_budget(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    quick_python: Path | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    ((language, script),) = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert language == "sh"
    run_commands(
        script, lambda part: run_in_shell(part, tmp_path), quick_python
    )
    assert "Traceback" not in capfd.readouterr().err

    def read(name: str) -> Any:
        return json.loads((tmp_path / f"{name}.json").read_text())

    experts = {}
    for name in ("one", "eight", "row"):
        (answer,) = read(name)["predictions"]
        weights = [answer[key] for key in answer if key.endswith("/experts")]
        experts[name] = [np.count_nonzero(each) for each in weights]
    assert set(experts["one"]) == {1}
    assert experts["eight"] == [8, 8]  # All that there are.
    assert all(1 <= count <= 8 for count in experts["row"])
    assert read("status")["shedding"]["budget_cap"] is None
    assert read("status")["shedding"]["rows"] == 3
