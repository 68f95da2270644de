import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recsys import cli
from recsys.api.describe import describe
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data.description import description
from recsys.data.description.description import describe_dataset
from recsys.data.description.description import quick_warnings
from recsys.data.description.drift import stability_index
from recsys.data.description.giveaways import describe_giveaways
from recsys.errors import RunError

LARGE = 2**60  # Neighbours are the same as floats.
DAY = 86_400


def table(rows: int, seed: int) -> pd.DataFrame:
    """Rows without any trouble."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user": LARGE + draw.integers(0, 40, rows),
            "item": [f"i{i}" for i in draw.integers(0, 30, rows)],
            "tags": [["a", "b"][: 1 + i % 2] for i in range(rows)],
            "age": draw.normal(40, 10, rows),
            "click": draw.integers(0, 2, rows).astype(float),
            "stars": draw.normal(3, 1, rows),
            "time": 1_735_689_600 + np.sort(draw.integers(0, 5 * DAY, rows)),
        }
    )


SCHEMA = Schema(
    "shop",
    {"user": "id", "item": "id", "tags": "ids", "age": "number"},
    {"click": "binary", "stars": "regression"},
    time="time",
)


def splits() -> dict[str, pd.DataFrame]:
    found = {}
    for number, split in enumerate(("train", "validation", "test")):
        found[split] = table(600 if split == "train" else 200, number)
        found[split]["time"] += 5 * DAY * number
    return found


def write(
    folder: Path, tables: dict[str, pd.DataFrame], schema: Schema = SCHEMA
) -> Path:
    folder.mkdir()
    for split, rows in tables.items():
        rows.to_parquet(folder / f"{split}.parquet", row_group_size=100)
    (folder / "dataset.json").write_text(schema.to_json())
    return folder


def kinds(folder: Path) -> set[str]:
    warnings = describe_dataset(load(folder))["warnings"]
    assert all(w["text"] and w["remedy"] for w in warnings)
    return {warning["kind"] for warning in warnings}


def test_counts_are_those_of_pandas(tmp_path: Path) -> None:
    tables = splits()
    # An id of a large integer and its neighbour, which a float cannot tell
    # apart, and a text that training does not have.
    tables["test"].loc[0, "user"] = LARGE - 1
    tables["test"].loc[:9, "item"] = "new"
    tables["train"].loc[:59, "age"] = np.nan
    found = describe_dataset(load(write(tmp_path / "data", tables)))
    train, test = tables["train"], tables["test"]
    user = found["features"]["user"]
    assert user["train"]["distinct"] == train["user"].nunique()
    assert user["test"]["unseen_rows"] == 1 / 200
    assert user["test"]["unseen_ids"] == 1 / test["user"].nunique()
    assert found["features"]["item"]["test"]["unseen_rows"] == 10 / 200
    age = found["features"]["age"]["train"]
    assert age["missing"] == pytest.approx(0.1)
    assert age["mean"] == pytest.approx(train["age"].mean())
    assert found["features"]["tags"]["train"]["distinct"] == 2
    assert found["features"]["tags"]["test"]["unseen_ids"] == 0
    click = found["splits"]["train"]["tasks"]["click"]
    assert click["mean"] == pytest.approx(train["click"].mean())
    assert sum(click["classes"].values()) == click["labelled"] == 600
    days = [p for p in found["periods"] if p["split"] == "train"]
    by_day = train.groupby(train["time"] // DAY)["click"].mean()
    assert days[0]["from"] == "2025-01-01"
    assert [p["labels"]["click"] for p in days] == pytest.approx([*by_day])
    assert found["owners"]["user"]["count"] == train["user"].nunique()
    assert {w["kind"] for w in found["warnings"]} == {"drift"}  # Missing ages.


def test_streamed_data_have_the_same_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = splits()
    tables["test"].loc[0, "user"] = LARGE - 1
    # Texts in some row groups only: ids are texts in all of them.
    for rows in tables.values():
        rows["item"] = [*(["7"] * 100), *rows["item"][100:]]
    folder = write(tmp_path / "data", tables)
    held = describe_dataset(load(folder, streaming=False))
    monkeypatch.setattr(description, "MOST_SAMPLED", 1_000)
    streamed = describe_dataset(load(folder, streaming=True))
    assert streamed == held


def test_trouble_is_told_with_a_remedy(tmp_path: Path) -> None:
    tables = splits()
    for number, (split, rows) in enumerate(tables.items()):
        rows["paid"] = np.where(rows["click"] == 1, 9.5, np.nan)
        rows["country"] = "nl"
        rows["row"] = np.arange(len(rows)) + 1_000 * number
        rows["age"] += 30 * (split == "test")
        rows["user"] = np.arange(len(rows)) + 1_000 * number
    tables["test"] = pd.concat([tables["test"], tables["train"][:10]])
    tables["train"] = pd.concat([tables["train"], tables["train"][:10]])
    tables["validation"]["stars"] = np.nan
    features = {**SCHEMA.features, "paid": "number", "country": "id"}
    schema = Schema(
        "shop",
        {**features, "row": "id"},
        SCHEMA.tasks,
        time="time",
        user="user",
    )
    folder = write(tmp_path / "data", tables, schema)
    assert kinds(folder) == {
        *("given away", "labels", "duplicates", "in training", "constant"),
        *("unseen ids", "row number", "drift", "single rows", "time"),
    }


def test_one_class_and_another_rate_are_told(tmp_path: Path) -> None:
    tables = splits()
    tables["validation"]["click"] = 1.0
    tables["test"]["click"] = np.arange(200) % 10 < 9
    found = describe_dataset(load(write(tmp_path / "data", tables)))
    texts = [w["text"] for w in found["warnings"]]
    assert any("validation split are 1" in text for text in texts)
    assert any("'click' is 1 in 90 % of the test" in text for text in texts)


def test_a_giveaway_by_missing_values_and_chance_by_ids() -> None:
    rows = table(400, 0)
    rows["note"] = np.where(rows["click"] == 1, "x", None)
    rows["order"] = [f"o{i}" for i in range(400)]
    train, validation = rows[:200], rows[200:]
    kinds = {"note": "id", "order": "id", "age": "number"}
    schema = Schema("shop", kinds, {"click": "binary", "stars": "regression"})
    found = describe_giveaways(train, validation, schema)
    click = found["click"]["features"]
    assert click["note"] == 1.0
    assert click["order"] == 0.5  # Known by heart in training alone.
    assert abs(click["age"] - 0.5) < 0.15
    assert max(found["stars"]["features"].values()) < 0.1


def test_drift_is_a_shift_beyond_chance() -> None:
    draw = np.random.default_rng(0)
    train, same = pd.Series(draw.normal(size=900)), pd.Series([None, 1.0])
    assert stability_index(train, pd.Series(draw.normal(size=200))) < 0.1
    assert stability_index(train, same[:1].astype(float)) == 0.0
    assert stability_index(train, train + 1) > 0.25
    ids = pd.Series(["a", "b", "c"] * 300)
    assert stability_index(ids, pd.Series(["a", "d"] * 300)) > 1


@pytest.mark.draws
def test_the_page_says_what_is_returned(tmp_path: Path) -> None:
    tables = splits()
    tables["train"]["age"] = 7.0
    folder = write(tmp_path / "data", tables)
    found = describe(folder, tmp_path / "page")
    written = json.loads((tmp_path / "page" / "description.json").read_text())
    assert written == found
    page = (tmp_path / "page" / "index.html").read_text()
    markdown = (tmp_path / "page" / "report.md").read_text()
    for text in ("age", "single value in all rows", "Labels over time"):
        assert text in page
        assert text in markdown
    with pytest.raises(RunError, match="new or empty folder"):
        describe(folder, tmp_path / "page")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = splits()
    tables["train"]["age"] = 7.0
    folder = write(tmp_path / "data", tables)
    assert cli.run(["describe", "--data", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "warning: 'age' has a single value" in printed
    assert re.search(r"from +2025-01-01 .* 2025-01-06 ", printed)
    assert cli.run(["describe", "--data", str(tmp_path / "none")]) != 0
    assert "expected a data folder" in capsys.readouterr().err


def test_small_data_are_not_warned_of_in_a_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = splits()
    tables["train"]["age"] = 7.0
    schema = Schema("shop", {"age": "number"}, SCHEMA.tasks)
    dataset = Dataset(schema, tables)
    assert quick_warnings(dataset) == []
    monkeypatch.setattr(description, "_FEW", 100)
    assert any("'age' has a single value" in w for w in quick_warnings(dataset))
