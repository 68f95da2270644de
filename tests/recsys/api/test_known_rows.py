"""A measurement on rows that a refit has trained on is announced as one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recsys
from recsys.api import known_rows
from recsys.data import Dataset
from recsys.data import load
from tests.recsys.api.test_refit import write_data

pytestmark = pytest.mark.once("torch")


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(known_rows, "announce", lines.append)
    return lines


@pytest.mark.parametrize("kind", ["texts", "large"])
def test_a_refitted_run_on_its_validation_split(
    kind: str,
    settings: Callable[..., dict[str, Any]],
    warnings: list[str],
    tmp_path: Path,
) -> None:
    data = write_data(tmp_path / "data", kind)
    for refit in (False, True):
        out = tmp_path / f"run-{refit}"
        given = {"data": str(data), "epochs": 1, "refit": refit}
        recsys.train(settings(out, **given))
        recsys.evaluate(out, data, "test")
        assert not warnings
        recsys.evaluate(out, data, "validation")
        assert len(warnings) == refit
    assert str(tmp_path / "run-True") in warnings[0]
    # Other rows of that name, which it has not learned.
    rows = load(data)
    assert isinstance(rows, Dataset)
    validation = rows.splits["validation"].iloc[:30]
    splits = {**rows.splits, "validation": validation}
    replace(rows, splits=splits).write(tmp_path / "other")
    recsys.evaluate(tmp_path / "run-True", tmp_path / "other", "validation")
    assert len(warnings) == 1


@pytest.mark.parametrize("kind", ["texts", "large"])
def test_a_refitted_baseline_on_its_validation_split(
    kind: str, warnings: list[str], tmp_path: Path
) -> None:
    data = write_data(tmp_path / "data", kind)
    for refit in (False, True):
        out = tmp_path / f"run-{refit}"
        given = {"data": str(data), "out": str(out), "model": "popular"}
        recsys.baseline({**given, "refit": refit})
        recsys.evaluate(out, data, "test")
        assert not warnings
        recsys.evaluate(out, data, "validation")
        assert len(warnings) == refit
