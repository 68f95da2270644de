import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from recsys import FileError
from recsys import RunError
from recsys.runs.run import Run

pytestmark = pytest.mark.once("torch")

METRICS = {"loss": 1, "tasks": {"a": {"loss": 1}}, "experts_per_example": None}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected an object. Received: []"),
        (None, "expected an object. Received: None"),
        ({}, "expected a value at validation. Received: none"),
        (
            {"validation": METRICS, "test": {}},
            "expected a value at test.loss. Received: none",
        ),
        (
            {"validation": METRICS | {"experts_per_example": "2"}},
            "expected a number at validation.experts_per_example. Received",
        ),
        (
            {"validation": METRICS | {"tasks": []}},
            "expected an object at validation.tasks. Received: []",
        ),
        (
            {"validation": METRICS | {"tasks": {"a": {"auc": {"b": 1}}}}},
            "validation.tasks.a: expected a number or null at auc.",
        ),
        (
            {"validation": METRICS | {"tasks": {"a": {"constant": {"b": []}}}}},
            "validation.tasks.a: expected a number or null at b.",
        ),
    ],
)
def test_broken_metrics(content: Any, message: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.metrics.write_text(json.dumps(content))
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        _ = run.is_finished
    assert str(caught.value).startswith(str(run.metrics))


def test_run_without_test_metrics_is_not_finished(tmp_path: Path) -> None:
    run = Run(tmp_path)
    for content in ({}, {"test": None}):
        run.metrics.write_text(json.dumps({"validation": METRICS, **content}))
        assert not run.is_finished


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected an object. Received: []"),
        ({}, "expected a value at data. Received: none"),
        ({"data": 7}, "`data` must be a string. Received: data=7"),
        ({"data": "d", "k": 0}, "`k` must be at least 1. Received: k=0"),
        ({"data": "d", "speed": 1}, "expected one of the fields data, out, "),
    ],
)
def test_broken_config(content: Any, message: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.config.write_text(json.dumps(content))
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        run.read_config()
    assert str(caught.value).startswith(str(run.config))


def test_what_is_missing_of_a_run_is_said(tmp_path: Path) -> None:
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.write_text("")
    received = {
        missing: "no folder of that name",
        file: "a file",
        tmp_path: "a folder without config.json",
    }
    for folder, there in received.items():
        with pytest.raises(RunError) as caught:
            Run(folder).read_config()
        assert str(caught.value) == (
            f"{folder}: expected the folder of a run. Received: {there}"
        )
    with pytest.raises(RunError, match=r"trained run\. Received: no folder"):
        Run(missing).load_model()


@pytest.mark.slow
def test_weights_are_those_of_the_models_tasks(
    run: Path, tmp_path: Path
) -> None:
    folder = Run(shutil.copytree(run, tmp_path / "run"))
    content = json.loads(folder.config.read_text())
    model = folder.load_model()
    folder.check_weighs(folder.read_config(), model)
    for weights in ({}, {"watch": 1.0}, {"watch": 0.5, "click": 0.5}):
        text = json.dumps(content | {"task_weights": weights})
        folder.config.write_text(text)
        with pytest.raises(FileError, match=r"config\.json: expected a weight"):
            folder.check_weighs(folder.read_config(), model)
