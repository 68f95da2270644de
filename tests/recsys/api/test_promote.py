"""Planted models that are served, and a day of data."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import recsys
from recsys.api import promotion_checks
from recsys.cli import run as command_line
from recsys.errors import FileError
from recsys.errors import RunError
from recsys.exporting.signature import Input
from recsys.exporting.signature import with_defaults
from recsys.files.json_files import JsonObject
from recsys.measuring.promotion.rules import PromotionRules
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
        "predictions of watch",
        "predictions of rating",
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
    assert "  no: tasks with a lower loss\n" in printed
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


def test_retrieval_may_not_drop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    metrics = {
        "old": {"recall@10": 0.5, "ndcg@10": 0.2, "items": 9},
        "new": {"recall@10": 0.495, "ndcg@10": 0.19, "items": 9},
    }
    monkeypatch.setattr(
        promotion_checks,
        "evaluate",
        lambda run, *_: {"retrieval": metrics[Path(run).name]},
    )
    found = promotion_checks.retrieval_checks(
        tmp_path / "old", tmp_path / "new", "day", "test", PromotionRules()
    )
    assert [(check.name, check.passed) for check in found] == [
        ("recall@10", True),
        ("ndcg@10", False),
    ]
