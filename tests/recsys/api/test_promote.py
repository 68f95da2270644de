"""Planted models that are served, and a day of data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import recsys
from recsys.cli import run as command_line
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.exporting.signature import Input
from recsys.exporting.signature import with_defaults
from recsys.files.json_files import JsonObject
from recsys.serving.promotion import check_promoted

# Models are served without Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")

SCHEMA = {
    "name": "day",
    "features": {"user id": "id", "age": "number", "tags": "ids"},
    "tasks": {"watch": "binary", "rating": "regression"},
    "user": "user id",
}
INPUTS = {"user id": "user_id", "age": "age", "tags": "tags"}
KINDS = ("predictions", "labels")
# The milliseconds of a tiny model are noise on a busy machine.
RULES = "most_latency_ratio: 1000\n"


def write_model(folder: Path, slope: float, bias: float = 0.0) -> None:
    """`watch` is the sigmoid of `slope * age + bias`; users shift it by 0."""

    def serve(user_id: object, age: object, tags: object) -> dict[str, object]:
        number = tf.cast(tf.strings.length(user_id), tf.float32) * 0.0
        number += tf.reduce_sum(tf.cast(tags, tf.float32), 1) * 0.0
        known = tf.where(tf.math.is_nan(age), tf.zeros_like(age), age)
        watch = tf.sigmoid(slope * known + bias + number)
        return {"watch": watch, "rating": 3.0 + 0.0 * watch}

    inputs = {
        "user_id": Input("string", (None,), np.array([""], object)),
        "age": Input("float32", (None,), np.array([np.nan], "f")),
        "tags": Input("int64", (None, None), np.full((1, 1), -(2**63))),
    }
    signature = with_defaults(serve, inputs)
    tf.saved_model.save(tf.Module(), str(folder), signature)
    (folder / "assets.extra").mkdir(exist_ok=True)
    (folder / "assets.extra" / "inputs.json").write_text(json.dumps(INPUTS))


def write_day(folder: Path, moved: float = 0.0, rows: int = 3000) -> Path:
    """The truth is `sigmoid(age)`; the test split may be another day."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    (folder / "dataset.json").write_text(json.dumps(SCHEMA))
    for split in ("train", "validation", "test"):
        ages = generator.normal(moved if split == "test" else 0.0, 1.0, rows)
        tags = [[2**60 + 1] * int(n) for n in generator.integers(0, 3, rows)]
        frame = pd.DataFrame(
            {
                "user id": [f"u{n}" for n in generator.integers(0, 500, rows)],
                "age": ages,
                "tags": tags,
                "watch": generator.random(rows) < 1 / (1 + np.exp(-ages)),
                "rating": generator.normal(3.0, 1.0, rows),
            }
        )
        frame["watch"] = frame["watch"].astype(float)
        frame.loc[::50, ["age", "watch"]] = np.nan
        frame.to_parquet(folder / f"{split}.parquet")
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1 is right in the mean, 2 is right, 3 is too high."""
    folder = tmp_path_factory.mktemp("models")
    for version, (slope, bias) in enumerate(
        [(0.3, 0.0), (1.0, 0.0), (1.0, 1.0)], 1
    ):
        write_model(folder / str(version), slope, bias)
    return folder


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_day(tmp_path_factory.mktemp("days") / "day")


@pytest.fixture
def promote(tmp_path: Path, models: Path) -> Callable[..., JsonObject]:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES)

    def call(old: int, new: int, data: Path) -> object:
        out = tmp_path / f"{old}-{new}"
        return recsys.promote(
            models / str(old), models / str(new), data, out, rules
        )

    return call


def checks(content: JsonObject, section: str) -> dict[str, object]:
    return {
        check["name"]: check
        for check in content["checks"]
        if check["section"] == section
    }


def test_a_better_model_is_accepted(
    promote: Callable[..., JsonObject],
    models: Path,
    day: Path,
    tmp_path: Path,
) -> None:
    content = promote(1, 2, day)
    assert (content["verdict"], content["reasons"]) == ("yes", [])
    test = pd.read_parquet(day / "test.parquet").dropna(subset=["watch"])
    loss = checks(content, "tasks")["loss of watch"]
    for name, slope in (("old", 0.3), ("new", 1.0)):
        chances = 1 / (1 + np.exp(-slope * test["age"].fillna(0)))
        likelihood = np.where(test["watch"] > 0, chances, 1 - chances)
        expected = -np.log(likelihood).mean()
        assert loss[name] == pytest.approx(expected, rel=1e-5)
    low, high = loss["interval"]
    assert low < loss["value"] < high < 0
    assert loss["new_auc"] == pytest.approx(loss["old_auc"])
    assert checks(content, "tasks")["tasks with a lower loss"]["value"] == 1
    assert {*checks(content, "drift")} == {
        *SCHEMA["features"],
        *(f"{what} of {task}" for what in KINDS for task in SCHEMA["tasks"]),
        "unknown ids of user id",
        "unknown ids of tags",
    }
    assert any("where" in name for name in checks(content, "slices"))
    check_promoted(models / "2")
    assert json.loads((tmp_path / "1-2" / "promotion.json").read_text()) == (
        content
    )
    page = (tmp_path / "1-2" / "promotion.md").read_text()
    assert page.startswith("# Promotion: yes")
    assert "| loss of watch | -" in page


def test_a_worse_model_is_not(
    promote: Callable[..., JsonObject], models: Path, day: Path
) -> None:
    content = promote(2, 3, day)
    assert content["verdict"] == "no"
    assert {
        "loss of watch",
        "calibration of watch, all rows",
        "tasks with a lower loss",
    } <= {*content["reasons"]}
    assert "loss of rating" not in content["reasons"]
    with pytest.raises(FileError, match="Received: 'no'"):
        check_promoted(models / "3")


def test_a_day_that_is_another_is_refused(
    promote: Callable[..., JsonObject], tmp_path: Path
) -> None:
    other = write_day(tmp_path / "other", moved=1.5)
    content = promote(1, 2, other)
    assert {"age", "predictions of watch"} <= {*content["reasons"]}
    assert "user id" not in content["reasons"]


def test_the_command_ends_with_3_for_no(
    models: Path, day: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The highest version of a folder counts; twice the same is no better."""
    words = ["promote", "--old", models, "--new", models / "3", "--data", day]
    words += ["--out", tmp_path / "out"]
    assert command_line([str(word) for word in words]) == 3
    printed = capfd.readouterr().out
    assert printed.startswith("Verdict: no (")
    assert (
        "  no: Tasks: tasks with a lower loss: value 0, limit 1.\n" in printed
    )
    assert command_line([str(word) for word in words]) == 1
    assert "must be a new or empty folder" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("confidence: 2", r"rules\.yaml: `confidence` must be"),
        ("confidence: high", r"rules\.yaml: `confidence` must be"),
        ("most_psy: 0.1", r"rules\.yaml: .*most_psy"),
        ("- 1", "expected rules by name"),
        ("a: [", "expected YAML"),
    ],
)
def test_wrong_rules(
    models: Path, day: Path, tmp_path: Path, rules: str, message: str
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(rules)
    with pytest.raises(FileError, match=message):
        recsys.promote(models / "1", models / "2", day, tmp_path / "o", file)


def test_no_model(models: Path, day: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"expected a run.*no folder"):
        recsys.promote(tmp_path / "no", models, day, tmp_path / "out")


@pytest.mark.parametrize(
    "inputs",
    [
        {"user id": "user_id", "age": "age"},
        {**INPUTS, "age": "size"},
        {**INPUTS, "more": "age"},
        {**INPUTS, "age": {}},
        {**INPUTS, "age": "user_id", "user id": "age"},
    ],
)
def test_inputs_that_are_not_those_of_the_model(
    models: Path, day: Path, tmp_path: Path, inputs: object
) -> None:
    shutil.copytree(models / "2", tmp_path / "new")
    file = tmp_path / "new" / "assets.extra" / "inputs.json"
    file.write_text(json.dumps(inputs))
    with pytest.raises(FileError, match=r"inputs\.json: expected .*inputs"):
        recsys.promote(models / "1", tmp_path / "new", day, tmp_path / "out")


def test_predictions_that_are_not_finite(
    models: Path, day: Path, tmp_path: Path
) -> None:
    write_model(tmp_path / "new", np.inf)
    with pytest.raises(FileError, match="expected finite predictions of"):
        recsys.promote(models / "1", tmp_path / "new", day, tmp_path / "out")


def constant(frame: pd.DataFrame) -> list[str]:
    frame["watch"] *= 0.0
    frame["rating"] = np.nan
    frame["age"] = 0.0
    frame["user id"] = "x" + frame["user id"]
    return ["watch", "rating", "age", "unknown ids of user id"]


def missing(frame: pd.DataFrame) -> list[str]:
    frame["age"] = np.nan
    frame["tags"] = [[]] * len(frame)
    return ["age", "tags"]


def scaled(frame: pd.DataFrame) -> list[str]:
    frame["age"] *= 100.0
    frame["rating"] *= 20.0
    return ["age", "rating"]


@pytest.mark.parametrize("broken", [constant, missing, scaled])
def test_a_broken_day_is_refused_and_the_page_says_why(
    promote: Callable[..., JsonObject],
    day: Path,
    tmp_path: Path,
    broken: Callable[[pd.DataFrame], list[str]],
) -> None:
    """On the same day as it should be, the model is accepted."""
    folder = tmp_path / "broken"
    shutil.copytree(day, folder)
    frame = pd.read_parquet(folder / "test.parquet")
    columns = broken(frame)
    frame.to_parquet(folder / "test.parquet")
    content = promote(1, 2, folder)
    assert content["verdict"] == "no"
    for column in columns:
        is_task = column in SCHEMA["tasks"]
        name = f"labels of {column}" if is_task else column
        assert name in content["reasons"]
        for page in ("promotion.html", "promotion.md"):
            text = (tmp_path / "1-2" / page).read_text()
            assert f"Drift: {name}: " in text
            says = "all values of the day are the same" in text
            assert says == (broken is not scaled)


SHOP = {
    "name": "shop",
    "features": {"user id": "id", "age": "number", "tags": "ids"},
    "tasks": {"watch": "binary"},
    "user": "user id",
    "group": "request",
    "propensity": "chance",
}


def write_shop(folder: Path, requests: int = 600) -> Path:
    """Requests with four candidates, of which a policy shows one by chance."""
    generator = np.random.default_rng(0)
    folder.mkdir()
    (folder / "dataset.json").write_text(json.dumps(SHOP))
    for split in ("train", "validation", "test"):
        rows = 4 * requests
        ages = generator.normal(size=rows)
        shown = np.zeros(rows, bool)
        shown[np.arange(0, rows, 4) + generator.integers(0, 4, requests)] = True
        watch = (generator.random(rows) < 1 / (1 + np.exp(-ages))) * 1.0
        pd.DataFrame(
            {
                "user id": np.repeat(
                    [f"u{n % 200}" for n in range(requests)], 4
                ),
                "age": ages,
                "tags": [[1]] * rows,
                "watch": np.where(shown, watch, np.nan),
                "request": np.repeat(2**60 + np.arange(requests), 4),
                "chance": np.where(shown, 0.25, np.nan),
            }
        ).to_parquet(folder / f"{split}.parquet")
    return folder


def test_the_value_of_what_would_be_shown(
    models: Path, tmp_path: Path, promote: Callable[..., JsonObject]
) -> None:
    """Version 4 shows the worst row of a request, 1 and 2 the best one."""
    shop = write_shop(tmp_path / "shop")
    write_model(models / "4", -1.0)
    content = promote(1, 2, shop)
    value = checks(content, "value")
    assert [*value] == [
        "value by ips",
        "value by snips",
        "value by doubly_robust",
        "effective rows",
    ]
    assert all(check["passed"] for check in value.values())
    assert value["value by ips"]["value"] == 0.0  # The same is shown.
    test = pd.read_parquet(shop / "test.parquet")
    best = test.loc[test.groupby("request")["age"].idxmax()]
    expected = best["watch"].sum() / 0.25 / 600
    assert value["value by ips"]["new"] == pytest.approx(expected)
    content = promote(1, 4, shop)
    assert "value by doubly_robust" in content["reasons"]
    assert "value by ips" not in content["reasons"]  # Only shown.
    assert checks(content, "value")["value by snips"]["interval"][1] < -0.3


def test_rules_of_the_value(models: Path, tmp_path: Path) -> None:
    shop = write_shop(tmp_path / "shop", 100)
    rules = tmp_path / "rules.yaml"
    for text, message in (
        ("policy_reward: wach", "policy_reward of .*watch.*Received: 'wach'"),
        ("policy_score: watch *", "the rules: policy_score: "),
    ):
        rules.write_text(text)
        with pytest.raises(FileError, match=message):
            recsys.promote(
                models / "1", models / "2", shop, tmp_path / text[7:10], rules
            )
