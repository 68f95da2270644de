"""Runs the Python of README.md and of the first pages of the documentation."""

import re
from pathlib import Path
from typing import Any

import keras
import pytest

ROOT = Path(__file__).parents[1]


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_the_mixture_of_the_readme_has_a_head_for_each_task() -> None:
    _, code = blocks("README.md")
    names: dict[str, Any] = {}
    exec(code, names)
    assert {*names["model"].output} == {"watch", "rating"}


@pytest.mark.once("torch")
def test_the_mixture_of_the_concepts_computes() -> None:
    (code,) = blocks("docs/concepts.md")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["mixture"](keras.ops.ones((3, 5))).shape == (3, 32)


@pytest.mark.slow
@pytest.mark.once("torch")
def test_the_home_page_recommends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("docs/index.md")
    assert len(code.splitlines()) <= 16
    code = code.replace("4000", "600").replace('"epochs": 5', '"epochs": 1')
    names: dict[str, Any] = {}
    exec(code, names)
    assert len(names["recommender"].recommend("u007", 5)) == 5
