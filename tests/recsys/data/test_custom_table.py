import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recsys.cli import run
from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data import write_table
from recsys.data.prepare import prepare_dataset
from recsys.data.split import Unseen

COLUMNS: dict[str, Any] = {
    "ids": "user,cat_*",
    "numbers": "price",
    "binary": "click",
    "regression": "stars",
}


def log(users: Sequence[int]) -> pd.DataFrame:
    users = np.asarray(users)
    return pd.DataFrame(
        {
            "time": users,
            "user": users,
            "cat_1": users % 3,
            "cat_2": [f"c{user % 4}" for user in users],
            "price": users / 2,
            "click": users % 2,
            "stars": np.where(users % 2, 5.0, np.nan),
        }
    )


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    write_table(log(range(100)), folder / "log.csv")
    later = log(range(100, 110)).assign(note="late")
    write_table(later, folder / "later.csv.gz")
    write_table(log(range(200, 206)), folder / "last.parquet")
    return folder


def prepared(raw_dir: Path, **options: Any) -> dict[str, list[int]]:
    """The users of each split."""
    out = raw_dir.parent / "out"
    given = {"train": "log.csv"} | COLUMNS | options
    prepare("table", raw_dir, out, progress=False, **given)
    dataset = load(out)
    return {
        name: dataset.split(name)["user"].tolist()
        for name in ("train", "validation", "test")
    }


def test_one_file(raw_dir: Path) -> None:
    splits = prepared(raw_dir)
    assert [len(split) for split in splits.values()] == [70, 15, 15]
    assert sorted(chain(*splits.values())) == list(range(100))
    schema = load(raw_dir.parent / "out").schema
    assert schema.name == "shop"
    assert declarations(schema.features) == {
        "user": "id",
        "cat_1": "id",
        "cat_2": "id",
        "price": "number",
    }
    assert declarations(schema.tasks) == {
        "click": "binary",
        "stars": "regression",
    }


def test_one_file_by_time(raw_dir: Path) -> None:
    splits = prepared(
        raw_dir, time="time", validation_share="0.1", test_share="0.2"
    )
    assert list(chain(*splits.values())) == list(range(100))
    assert [len(split) for split in splits.values()] == [70, 10, 20]


def test_a_time_is_no_feature_unless_it_is_named_otherwise(
    raw_dir: Path,
) -> None:
    prepared(raw_dir, ids="*", time="time")
    assert "time" not in load(raw_dir.parent / "out").schema.features


def test_three_files(raw_dir: Path) -> None:
    splits = prepared(raw_dir, validation="later.csv.gz", test="last.parquet")
    assert splits == {
        "train": list(range(100)),
        "validation": list(range(100, 110)),
        "test": list(range(200, 206)),
    }


@pytest.mark.parametrize("given", ["validation", "test"])
def test_two_files(raw_dir: Path, given: str) -> None:
    splits = prepared(raw_dir, **{given: "later.csv.gz"})
    assert splits[given] == list(range(100, 110))
    drawn = "test" if given == "validation" else "validation"
    assert len(splits[drawn]) == 15
    assert sorted(splits["train"] + splits[drawn]) == list(range(100))


def test_lists_from_python(raw_dir: Path) -> None:
    prepared(raw_dir, ids=["user"], numbers=["price", "cat_1"])
    features = declarations(load(raw_dir.parent / "out").schema.features)
    assert features == {"user": "id", "price": "number", "cat_1": "number"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": "none.csv"}, "none.csv: expected a file"),
        ({"train": "log.xls"}, "log.xls: expected a file name ending"),
        ({"train": []}, "`train` must name a file. Received: train=[]"),
        ({"train": "*.tsv"}, "shop: expected files '*.tsv'. Received: none"),
        ({"train": "log.csv,log.csv"}, "log.csv: expected each file "
         "once. Received: a file that train names twice"),
        ({"test": "log.csv"}, "log.csv: expected each file once. "
         "Received: a file of train and of test"),
        ({"train": "l*.csv*"}, "log.csv: expected the columns of "),
        ({"exclude": "cost"}, "log.csv: expected a column 'cost'"),
        ({"exclude": "user", "ids": "user"}, "column 'user': expected one "
         "type. Received: excluded and id"),
        ({"time_format": "%d/%m/%Y"}, "`time_format` must come with `time`"),
        ({"separator": "dash"}, "`separator` must be comma, tab, semicolon"),
        ({"time": "cat_2"}, "log.csv, column 'cat_2', data row 1 (counted from "
         "1): expected a number, or a date or time as ISO 8601 has it"),
        ({"test": "none.csv"}, "none.csv: expected a file"),
        ({"numbers": "cost"}, "log.csv: expected a column 'cost'"),
        ({"numbers": "cat_2"}, "column 'cat_2', data row 1 (counted from 1): "
         "expected a finite number. Received: 'c0'"),
        ({"binary": "price"}, "column 'price': expected one type. Received: "
         "binary and number"),
        ({"binary": "cat_1"}, "column 'cat_1', data row 3 (counted from 1): "
         "expected 0, 1 or nothing. Received: 2"),
        ({"time": "day"}, "log.csv: expected a column 'day'"),
        ({"ids": [], "numbers": []}, "'features': expected column names"),
        ({"binary": [], "regression": []}, "'tasks': expected column names"),
        ({"validation_share": 0.9}, "The shares of validation and test must"),
        ({"validation_share": "some"}, "must be of type float. Received"),
        ({"split": "month", "time": "time"}, "`split` must be time or random. "
         "Received: split='month'"),
        ({"split": "time"}, "`split` can only be time if `time` names a "),
        ({"label": "click"}, "must be among train, validation, test, ids"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_and_leaves_nothing(
    raw_dir: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match="Received") as caught:
        prepared(raw_dir, **options)
    assert message in str(caught.value)
    assert [path.name for path in raw_dir.parent.iterdir()] == ["shop"]


def test_a_column_that_another_file_lacks(raw_dir: Path) -> None:
    later = log(range(9)).drop(columns="price")
    write_table(later, raw_dir / "later.csv.gz")
    with pytest.raises(DataError, match=r"later\.csv\.gz: .*'price'"):
        prepared(raw_dir, test="later.csv.gz")


def test_a_file_without_rows(raw_dir: Path) -> None:
    write_table(log([]), raw_dir / "later.csv.gz")
    with pytest.raises(DataError, match=r"later\.csv\.gz: .*at least one row"):
        prepared(raw_dir, test="later.csv.gz")


def test_the_file_to_train_on_must_be_given(raw_dir: Path) -> None:
    with pytest.raises(ValueError, match=r"'table' must name train\. Received"):
        prepare("table", raw_dir, raw_dir.parent / "out", **COLUMNS)


def dates(first: int, number: int) -> pd.Series:
    """Days of the year 2020, written with the day first."""
    days = pd.date_range("2020-01-01", periods=366)[first : first + number]
    return pd.Series(days.strftime("%d/%m/%Y"))


def test_texts_are_split_by_what_they_say(raw_dir: Path) -> None:
    table = log(range(300)).assign(time=dates(0, 300))
    table = table.sample(frac=1, random_state=0)
    write_table(table, raw_dir / "log.csv")
    with pytest.raises(DataError, match="as ISO 8601 has it"):
        prepared(raw_dir, time="time")
    splits = prepared(raw_dir, time="time", time_format="%d/%m/%Y")
    assert list(chain(*splits.values())) == list(range(300))


def test_the_summary_tells_times_and_unseen_ids(raw_dir: Path) -> None:
    table = log(range(100)).assign(
        time=dates(0, 100), user=[*range(90)] * 1 + [3] * 10
    )
    write_table(table, raw_dir / "log.csv")
    options = COLUMNS | {
        "train": "log.csv",
        "time": "time",
        "time_format": "%d/%m/%Y",
    }
    out = raw_dir.parent / "out"
    summary = prepare_dataset("table", raw_dir, out, options).summary()
    days = pd.date_range("2020-01-01", periods=100)
    assert {name: part.times for name, part in summary.items()} == {
        "train": (days[0], days[69]),
        "validation": (days[70], days[84]),
        "test": (days[85], days[99]),
    }
    assert summary["train"].unseen == {}
    assert summary["validation"].unseen["user"] == Unseen(15, 1.0, 1.0)
    assert summary["test"].unseen["user"] == Unseen(6, 5 / 6, 5 / 15)
    assert summary["test"].unseen["cat_2"] == Unseen(4, 0.0, 0.0)
    assert {name: part.rows for name, part in summary.items()} == {
        "train": 70,
        "validation": 15,
        "test": 15,
    }


def test_files_of_their_own_have_ranges_and_a_warning_where_they_overlap(
    raw_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_table(log(range(50, 60)), raw_dir / "later.csv.gz")
    options = COLUMNS | {
        "train": "log.csv",
        "validation": "later.csv.gz",
        "test": "last.parquet",
        "time": "time",
    }
    out = raw_dir.parent / "out"
    summary = prepare_dataset("table", raw_dir, out, options).summary()
    assert {name: part.times for name, part in summary.items()} == {
        "train": (0, 99),
        "validation": (50, 59),
        "test": (200, 205),
    }
    assert caplog.messages == [
        "The rows to train on reach to 99, those of the validation split begin "
        "before that, at 50."
    ]


def test_the_command_prints_times_and_unseen_ids(
    raw_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = log(range(100)).assign(time=dates(0, 100))
    write_table(table, raw_dir / "log.csv")
    command = ["prepare", "table", "--raw-dir", str(raw_dir)]
    command += ["--out", str(raw_dir.parent / "out")]
    given = {"train": "log.csv", "time": "time", "time_format": "%d/%m/%Y"}
    given |= {"ids": "user", "binary": "click"}
    for name, value in given.items():
        command += ["--option", f"{name}={value}"]
    assert run(command) == 0
    assert capsys.readouterr().out.splitlines()[:5] == [
        "train: 70 rows, times from 2020-01-01 00:00:00 to 2020-03-10 00:00:00",
        "validation: 15 rows, times from 2020-03-11 00:00:00 to 2020-03-25 "
        "00:00:00",
        "  user: 100.0 % of 15 ids are not in training, with 100.0 % of the "
        "rows",
        "test: 15 rows, times from 2020-03-26 00:00:00 to 2020-04-09 00:00:00",
        "  user: 100.0 % of 15 ids are not in training, with 100.0 % of the "
        "rows",
    ]


def test_a_list_given_twice_adds_up_and_anything_else_is_an_error(
    raw_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["prepare", "table", "--raw-dir", str(raw_dir)]
    command += ["--out", str(raw_dir.parent / "out")]
    given = ["train=log.csv", "ids=user", "ids=cat_1,cat_2", "binary=click"]
    command += list(chain(*(("--option", pair) for pair in given)))
    assert (
        run([*command, "--option", "time=time", "--option", "time=user"]) == 2
    )
    assert capsys.readouterr().err == (
        "error: `options` of the data set 'table': time must be given once. "
        "Received: time=time and time=user\n"
    )
    assert run(command) == 0
    features = declarations(load(raw_dir.parent / "out").schema.features)
    assert list(features) == ["user", "cat_1", "cat_2"]


@pytest.mark.parametrize("named", ["day-*.csv", "day-1.csv,day-2.csv"])
def test_several_files_make_one_split(raw_dir: Path, named: str) -> None:
    # Of one file alone, the ids are integers.
    write_table(log(range(60)), raw_dir / "day-1.csv")
    second = log(range(60, 100)).astype({"user": str})
    second.loc[39, "user"] = "x99"
    write_table(second[second.columns[::-1]], raw_dir / "day-2.csv")
    splits = prepared(raw_dir, train=named, time="time")
    users = [str(user) for user in chain(*splits.values())]
    assert users == [*map(str, range(99)), "x99"]


def test_a_row_is_named_by_its_file(raw_dir: Path) -> None:
    write_table(log(range(60)), raw_dir / "day-1.csv")
    second = log(range(60, 70))
    second.loc[3, "click"] = 7
    write_table(second, raw_dir / "day-2.csv")
    with pytest.raises(
        DataError, match=r"day-2\.csv, column 'click', data row 4"
    ):
        prepared(raw_dir, train="day-*.csv")


def test_files_with_times_of_two_kinds(raw_dir: Path) -> None:
    write_table(log(range(60)), raw_dir / "day-1.csv")
    second = log(range(60, 70)).assign(time="2026-01-01")
    write_table(second, raw_dir / "day-2.csv")
    with pytest.raises(DataError) as caught:
        prepared(raw_dir, train="day-*.csv", time="time")
    assert str(caught.value) == (
        f"{raw_dir / 'day-2.csv'}, column 'time': expected numbers as in "
        f"{raw_dir / 'day-1.csv'}. Received: dates without a time zone"
    )


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("log.tsv", "\t", None),
        ("log.csv", ";", None),
        ("log.csv", "|", None),
        ("log.csv", "\t", None),
        ("log.csv", ";", ";"),
        ("log.dat", "\t", "tab"),
        ("log.txt", "|", "pipe"),
        ("log.txt", ";", "semicolon"),
        ("log.txt", ",", "comma"),
        ("log.dat", "\t", "\\t"),
    ],
)
def test_separators(
    raw_dir: Path, name: str, text: str, given: str | None
) -> None:
    log(range(100)).to_csv(raw_dir / name, sep=text, index=False)
    options = {} if given is None else {"separator": given}
    splits = prepared(raw_dir, train=name, time="time", **options)
    assert list(chain(*splits.values())) == list(range(100))


def test_excluded_columns_are_taken_by_no_pattern(raw_dir: Path) -> None:
    prepared(raw_dir, ids="*", exclude="cat_?,time", time="time")
    features = declarations(load(raw_dir.parent / "out").schema.features)
    assert features == {"user": "id", "price": "number"}


def described(raw_dir: Path, **roles: str) -> dict[str, Any]:
    """Options for a table whose description is a file."""
    content = {
        "name": "shop",
        "features": {"user": "id", "price": "number"},
        "tasks": {"click": "binary"},
    }
    (raw_dir / "columns.json").write_text(json.dumps(content | roles))
    given = dict.fromkeys(COLUMNS, ())
    return given | {"schema": "columns.json"}


def test_a_time_is_named_and_kept(raw_dir: Path) -> None:
    prepared(raw_dir, time="time")
    dataset = load(raw_dir.parent / "out")
    assert json.loads(dataset.schema.to_json())["time"] == "time"
    assert "time" not in dataset.schema.features
    assert dataset.split("test")["time"].tolist() == list(range(85, 100))
    assert dataset.summary()["test"].times == (85, 99)


def test_a_description_may_name_the_time(raw_dir: Path) -> None:
    days = pd.date_range("2026-01-01", periods=100, tz="UTC")
    table = log(range(100)).assign(time=days.strftime("%Y-%m-%dT%H:%M:%SZ"))
    write_table(table.sample(frac=1, random_state=0), raw_dir / "log.csv")
    splits = prepared(raw_dir, **described(raw_dir, time="time"), split="time")
    assert list(chain(*splits.values())) == list(range(100))
    dataset = load(raw_dir.parent / "out")
    assert dataset.schema.time == "time"
    assert dataset.split("test")["time"].tolist() == days[85:].tolist()
    assert dataset.summary()["train"].times == (days[0], days[69])


def test_splits_may_be_drawn_although_there_is_a_time(raw_dir: Path) -> None:
    splits = prepared(raw_dir, time="time", split="random")
    assert splits["test"] != sorted(splits["test"])
    dataset = load(raw_dir.parent / "out")
    times = dataset.split("test")["time"]
    assert times.tolist() == splits["test"]
    summary = dataset.summary()["test"]
    assert summary.times == (times.min(), times.max())


def test_a_time_that_is_not_iso_is_kept_as_what_it_says(raw_dir: Path) -> None:
    table = log(range(100)).assign(time=dates(0, 100))
    write_table(table, raw_dir / "log.csv")
    prepared(raw_dir, time="time", time_format="%d/%m/%Y")
    kept = load(raw_dir.parent / "out").split("test")["time"]
    assert kept.tolist() == [*pd.date_range("2020-03-26", periods=15)]


def test_a_time_may_be_a_feature(raw_dir: Path) -> None:
    options = described(raw_dir, time="price")
    splits = prepared(raw_dir, **options)
    assert list(chain(*splits.values())) == list(range(100))
    train = load(raw_dir.parent / "out").split("train")
    assert [*train] == ["user", "price", "click"]
    assert train["price"].dtype == float


def test_a_feature_that_is_cut_by_is_not_called_the_time(raw_dir: Path) -> None:
    splits = prepared(raw_dir, **described(raw_dir), time="price")
    assert list(chain(*splits.values())) == list(range(100))
    assert load(raw_dir.parent / "out").schema.time is None


def test_a_description_has_one_time(raw_dir: Path) -> None:
    options = described(raw_dir, time="price")
    with pytest.raises(ValueError, match="`time` must be 'price', as in"):
        prepared(raw_dir, **options, time="time")
    prepared(raw_dir, **options, time="price")


def test_a_description_without_a_time_is_named(raw_dir: Path) -> None:
    options = described(raw_dir)
    with pytest.raises(ValueError, match=r"columns\.json: `split` can only be"):
        prepared(raw_dir, **options, split="time")


def test_the_command_splits_by_time(
    raw_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    described(raw_dir, time="time")
    out = raw_dir.parent / "out"
    command = ["prepare", "table", "--raw-dir", str(raw_dir), "--out", str(out)]
    command += ["--option", "train=log.csv", "--split", "time"]
    assert run([*command, "--option", "schema=columns.json"]) == 0
    shown = capsys.readouterr().out
    assert "test: 15 rows, times from 85 to 99\n" in shown
    assert load(out).split("test")["user"].tolist() == list(range(85, 100))
