"""Runs `docs/first_model.md` from its first block to its last."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.recsys.page_commands import run_commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "first_model.md"
START = """
set -euo pipefail
trap 'jobs -p | xargs -r kill' EXIT
"""
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once("tensorflow"),
    pytest.mark.usefixtures("warm_python"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl"),
]


def script_of(page: str, folder: Path) -> str:
    """One script of all blocks; those of Python become files."""
    parts = []
    for number, (language, block) in enumerate(BLOCK.findall(page)):
        if language == "python":
            (folder / f"block_{number}.py").write_text(block, encoding="utf-8")
            block = f"python block_{number}.py"
        parts.append(block)
    return "\n".join(parts)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run_in_shell(script: str, folder: Path) -> None:
    """Servers start in `sys.executable`."""
    program = folder / "bin" / "recsys"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m recsys "$@"\n')
    program.chmod(0o755)
    path = (program.parent, Path(sys.executable).parent, os.environ["PATH"])
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "PATH": ":".join(map(str, path)),
        "PORT": str(free_port()),
    }
    ended = subprocess.run(
        ["bash", "-c", START + script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-5000:]
    assert "Traceback" not in ended.stderr


def test_a_data_frame_becomes_a_service(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    quick_python: Path | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    script = script_of(PAGE.read_text(encoding="utf-8"), tmp_path)
    assert script.count("recsys ") >= 6
    run_commands(
        script, lambda part: run_in_shell(part, tmp_path), quick_python
    )
    assert "Traceback" not in capfd.readouterr().err
    scored = pd.read_parquet(tmp_path / "scored.parquet")
    assert len(scored) == 20
    for task in ("click", "buy"):
        assert scored[task].between(0, 1).all()
    metrics = json.loads((tmp_path / "runs/shop/metrics.json").read_text())
    assert metrics["test"]["tasks"]["click"]["auc"] > 0.7
    (answer,) = json.loads((tmp_path / "answer.json").read_text())[
        "predictions"
    ]
    assert answer.keys() == {"item", "score", "click", "buy"}
    items = answer["item"]
    assert len(set(items)) == 5
    assert all(re.fullmatch(r"sku-\d{4}", item) for item in items)
    assert "sku-0001" not in items
    assert answer["score"] == sorted(answer["score"], reverse=True)
    for score, click, buy in zip(
        answer["score"], answer["click"], answer["buy"], strict=True
    ):
        assert score == pytest.approx(click**0.5 * buy, rel=1e-4)
