"""Runs the commands and the Python of `docs/negative_sampling.md`."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recsys.cli import run as recsys
from recsys.data import load
from tests.recsys.test_own_data import BLOCK

PAGE = Path(__file__).parents[2] / "docs" / "negative_sampling.md"


@pytest.mark.slow
@pytest.mark.once("torch")
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("views").mkdir()
    number = np.arange(200)
    pd.DataFrame(
        {
            "time": 1_700_000_000 + number,
            "user": [f"u{n % 19}" for n in number],
            "item": number * 7 % 31,
            "brand": number * 7 % 31 % 4,
        }
    ).to_csv("views/views.csv", index=False)
    names: dict[str, object] = {}
    sizes = ["--expert-units", "8", "--head-units", "8"]
    for language, block in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if language == "python":
            exec(block, names)
            continue
        for command in block.replace("\\\n", " ").splitlines():
            _, *words = shlex.split(command)
            small = sizes if words[0] == "train" else []
            assert recsys([*words, *small]) == 0, command
    for folder in ("views", "popular"):
        dataset = load(f"data/{folder}")
        rows = [len(dataset.split(name)) for name in ("train", "test")]
        assert rows == [140 * 5, 30 * 5]
    assert Path("runs/views/metrics.json").is_file()
