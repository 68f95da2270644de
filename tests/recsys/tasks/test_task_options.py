import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recsys
from recsys.cli import run as run_command
from recsys.commands.options import given_fields
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Schema
from recsys.runs.run import Run
from recsys.tasks import Binary
from recsys.tasks.task_options import typed_task_options
from recsys.tasks.task_options import with_task_options
from tests.recsys.conftest import Settings

pytestmark = pytest.mark.once("torch")

TASKS = Schema(
    "shop",
    {"user": "id"},
    {
        "click": "binary",
        "v1.buy": {"type": "binary", "pos_weight": 3, "focal": 1},
        "stars": "regression",
    },
).tasks


def test_texts_get_their_types() -> None:
    options = {"v1.buy.pos_weight": "10", "click.focal": 2.0}
    typed = typed_task_options(options, TASKS)
    assert typed == {"v1.buy.pos_weight": 10.0, "click.focal": 2.0}


def test_what_is_given_takes_the_place_of_what_is_declared() -> None:
    options = {"v1.buy.pos_weight": 10.0, "v1.buy.after": "click"}
    changed = with_task_options(TASKS, options)
    assert changed == {
        **TASKS,
        "v1.buy": Binary(pos_weight=10, focal=1, after="click"),
    }
    assert with_task_options(TASKS, {}) == TASKS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "pos_weight",
            "10",
            "`task_options` must be named TASK.OPTION, such as "
            "click.pos_weight. Received: 'pos_weight'",
        ),
        (
            "clik.focal",
            "2",
            "`task_options` must be for the tasks ['click', 'v1.buy', "
            "'stars'] (did you mean 'click'?). Received: 'clik'",
        ),
        (
            "click.pos_wieght",
            "2",
            "`task_options` of the task 'click' must be among after, "
            "pos_weight, focal (did you mean 'pos_weight'?). "
            "Received: 'pos_wieght'",
        ),
        (
            "stars.focal",
            "2",
            "`task_options` of the task 'stars' must be among none. "
            "Received: 'focal'",
        ),
        (
            "click.focal",
            "much",
            "`task_options` of the task 'click': focal must be of type float. "
            "Received: focal='much'",
        ),
        (
            "click.pos_weight",
            "0",
            "`task_options`, column 'click': expected above 0 at pos_weight. "
            "Received: 0.0",
        ),
        (
            "click.pos_weight",
            "nan",
            "`task_options`, column 'click': expected a finite number at "
            "pos_weight. Received: nan",
        ),
        (
            "click.after",
            "stars",
            "'tasks', column 'click': expected `after` one of the other "
            "binary tasks ['v1.buy']. Received: 'stars'",
        ),
    ],
)
def test_errors(name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        typed_task_options({name: value}, TASKS)
    assert str(caught.value) == message


def test_on_the_command_line() -> None:
    given = given_fields({"task_options": ["buy.pos_weight=10", "a.focal=2"]})
    expected = {"buy.pos_weight": "10", "a.focal": "2"}
    assert given == {"task_options": expected}


def test_an_error_is_one_line(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(data), "--out", str(tmp_path / "run")]
    assert run_command([*arguments, "--task-option", "watch.focal=-1"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line == (
        "error: `task_options`, column 'watch': expected at least 0 at focal. "
        "Received: -1.0"
    )


@pytest.mark.slow
def test_training_with_a_weight(
    data: Path,
    run: Path,
    settings: Callable[..., Settings],
    tmp_path: Path,
) -> None:
    """What counts more is said to be more probable than it is."""
    options = {"watch.pos_weight": "30"}
    weights = {"watch": 0.9}
    fields = settings(tmp_path, task_options=options, task_weights=weights)
    fields |= {"epochs": 6, "learning_rate": 0.03}
    metrics = recsys.train(fields)["test"]["tasks"]["watch"]
    assert json.loads((tmp_path / "config.json").read_text())[
        "task_options"
    ] == {"watch.pos_weight": 30.0}
    model = recsys.load_model(tmp_path)
    assert model.tasks["watch"] == Binary(pos_weight=30.0)
    rows = recsys.load(data).split("test")
    plain = recsys.load_model(run).predict(rows)["watch"].mean()
    assert model.predict(rows)["watch"].mean() > plain + 0.1
    assert recsys.evaluate(tmp_path, data)["tasks"]["watch"] == {
        name: pytest.approx(value, rel=1e-5) for name, value in metrics.items()
    }
    again = ResolvedConfig.from_mapping(
        json.loads((tmp_path / "config.json").read_text())
    )
    assert again == Run(tmp_path).read_config()
