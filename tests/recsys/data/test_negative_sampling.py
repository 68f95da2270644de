import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.cli import run
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import load
from recsys.data import prepare
from recsys.data import with_negatives
from recsys.data import write_table
from recsys.data.negative_sampling import item_columns
from recsys.data.split_dataset import SPLITS

BIG = 2**53 + 1

FEATURES = {
    "user": "id",
    "item": "id",
    "brand": "id",
    "age": "number",
    "tags": "ids",
    "hour": "number",
}
SCHEMA = Schema(
    "shop",
    FEATURES,
    {"click": "binary", "buy": {"type": "binary", "after": "click"}}
    | {"stars": "regression"},
    group="session",
    time="time",
)


def rows(
    pairs: Sequence[tuple[Any, Any]],
    clicks: Sequence[float | None],
    numbers: Sequence[int] | None = None,
) -> pd.DataFrame:
    """Rows in which brand and tags follow from the item, age from the user."""
    users, items = zip(*pairs, strict=True)
    count = len(pairs)
    number = np.arange(count) if numbers is None else np.array(numbers)
    return pd.DataFrame(
        {
            "user": pd.Series(users),
            "item": pd.Series(items),
            "brand": [f"brand of {item}" for item in items],
            "age": [float(sum(str(user).encode()) % 7) for user in users],
            "tags": [np.array([f"tag of {item}"], object) for item in items],
            "hour": number.astype(float),
            "click": pd.Series(clicks, dtype="float64"),
            "buy": 0.0,
            "stars": 5.0,
            "session": [f"session {n}" for n in number],
            "time": number,
        }
    )


def dataset(
    users: Sequence[Any], items: Sequence[Any], schema: Schema = SCHEMA
) -> Dataset:
    """Both users have the first item; later ones of the first in the test."""
    one, two = users
    a, b, c, d = items
    train = rows(
        [(one, a), (two, a), (one, b), (two, c), (two, d)], [1, 1, 0, None, 1]
    )
    test = rows([(one, c), (two, a)], [1, 0])
    return Dataset(
        schema, {"train": train, "validation": test.copy(), "test": test}
    )


KINDS = {
    "texts": (("ann", "bob"), ("007", "7", "7.0", "é")),
    "integers": ((BIG, BIG + 1), (BIG, BIG + 1, BIG + 2, 2**63 - 1)),
    "small integers": ((1, 2), (1, 2, 3, 4)),
    "texts and integers": (("ann", "bob"), (BIG, BIG + 1, BIG + 2, 9)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_written_out(kind: str) -> None:
    """The first user has all items but d, the second all but b."""
    (one, two), (a, b, c, d) = users, items = KINDS[kind]
    source = dataset(users, items)
    train = with_negatives(source, 3).split("train")
    positives = {(one, a), (two, a), (two, d)}
    pairs = [*zip(train["user"], train["item"], strict=True)]
    assert pairs == [
        *((one, a), (one, d), (two, a), (two, b)),
        *((one, b), (two, c), (two, d), (two, b)),
    ]
    assert train["click"].tolist()[:4] == [1, 0, 1, 0]
    negative = train[train["click"].eq(0) & train["stars"].isna()]
    assert len(negative) == len(positives)
    assert (negative["buy"] == 0).all()
    # Of the item: what the training split says of it.
    assert train["brand"].tolist() == [f"brand of {item}" for _, item in pairs]
    assert [tags[0] for tags in train["tags"]] == [
        f"tag of {item}" for _, item in pairs
    ]
    # All else is the positive row's.
    assert negative["hour"].tolist() == [0, 1, 4]
    assert negative["time"].tolist() == [0, 1, 4]
    assert negative["session"].tolist() == [f"session {n}" for n in (0, 1, 4)]
    ages = source.split("train")["age"]
    assert negative["age"].tolist() == ages[[0, 1, 4]].tolist()
    assert train.dtypes.equals(source.split("train").dtypes)


def test_other_splits_stay_unless_they_are_told() -> None:
    source = dataset(*KINDS["texts"])
    done = with_negatives(source, 1)
    for name in ("validation", "test"):
        pd.testing.assert_frame_equal(done.split(name), source.split(name))
    done = with_negatives(source, 0, evaluation_negatives=1)
    pd.testing.assert_frame_equal(done.split("train"), source.split("train"))
    test = done.split("test")
    assert test["item"].tolist() == ["7.0", "é", "007"]
    assert test["click"].tolist() == [1, 0, 0]


def test_an_item_that_training_does_not_know_is_not_drawn() -> None:
    source = dataset(*KINDS["texts"])
    further = rows([("ann", "new"), ("eve", "newer")], [1, 1])
    source = Dataset(SCHEMA, {**source.splits, "test": further})
    done = with_negatives(source, 9, evaluation_negatives=9)
    for name in ("train", "test"):
        negative = done.split(name)["stars"].isna()
        drawn = set(done.split(name)["item"][negative])
        assert drawn <= {"007", "7", "7.0", "é"}


def test_the_user_of_a_missing_id_has_no_negatives() -> None:
    source = dataset(*KINDS["texts"])
    train = source.split("train").copy()
    train.loc[0, "user"] = None
    train.loc[1, "item"] = None
    done = with_negatives(Dataset(SCHEMA, {**source.splits, "train": train}), 1)
    negative = done.split("train")["stars"].isna()
    assert done.split("train")["hour"][negative].tolist() == [4]


def test_ids_of_two_forms_are_compared() -> None:
    """Integers in one file, texts in another: 7 is 7."""
    train = rows([(1, 7), (1, 8), (2, 9)], [1, 1, 1])
    other = rows([("1", "9"), ("x", "7")], [1, 1])
    source = Dataset(
        SCHEMA, {"train": train, "validation": other, "test": other.copy()}
    )
    found = with_negatives(source, 2).split("train")
    assert found[found["user"] == "1"]["item"].tolist() == ["7", "8"]


def test_too_few_items_are_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        with_negatives(dataset(*KINDS["texts"]), 3, "uniform", 3)
    (message,) = caplog.messages
    assert message == (
        "5 positive rows have fewer negatives than asked for, as their users "
        "have had all other items."
    )


def test_a_split_without_zeros_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = dataset(*KINDS["texts"])
    test = source.split("test").assign(click=1.0, buy=1.0)
    source = Dataset(SCHEMA, {**source.splits, "test": test})
    with caplog.at_level(logging.WARNING):
        with_negatives(source, 1)
    (message,) = caplog.messages
    assert message.startswith("The test split has no row with a 0")
    assert "evaluation_negatives=1" in message


@settings(deadline=None, max_examples=20)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(BIG, BIG + 9)),
        min_size=3,
        max_size=30,
    ),
    sampling=st.sampled_from(["uniform", "popularity"]),
    count=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_no_negative_is_a_row_of_any_split(
    pairs: list[tuple[str, int]], sampling: str, count: int, seed: int
) -> None:
    splits = {
        name: rows(pairs[number::3], [1.0] * len(pairs[number::3]))
        for number, name in enumerate(SPLITS)
    }
    source = Dataset(SCHEMA, splits)
    done = with_negatives(source, count, sampling, count, seed)
    again = with_negatives(source, count, sampling, count, seed)
    known = set(splits["train"]["item"])
    for name in SPLITS:
        pd.testing.assert_frame_equal(done.split(name), again.split(name))
        split = done.split(name)
        negative = split[split["stars"].isna()]
        drawn = {*zip(negative["user"], negative["item"], strict=True)}
        assert not drawn & set(pairs)
        assert set(negative["item"]) <= known
        own = split[split["stars"].notna()].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, splits[name])
        # As many as there are items left, none twice for a row.
        for time, user in zip(own["time"], own["user"], strict=True):
            had = {item for owner, item in pairs if owner == user}
            of_row = negative["item"][negative["time"] == time]
            assert of_row.is_unique
            assert len(of_row) == min(count, len(known - had))


def test_popular_items_are_drawn_more_often() -> None:
    pairs = [(user, "hit") for user in range(90)] + [(90, "a"), (91, "b")]
    done = with_negatives(
        Dataset(SCHEMA, dict.fromkeys(SPLITS, rows(pairs, [1.0] * len(pairs)))),
        1,
        "popularity",
    ).split("train")
    drawn = done[done["stars"].isna()]
    assert drawn["item"][drawn["user"] >= 90].tolist() == ["hit", "hit"]
    assert set(drawn["item"][drawn["user"] < 90]) == {"a", "b"}


@pytest.mark.parametrize(
    ("features", "tasks", "message"),
    [
        ({"user": "id", "item": "id"}, {"stars": "regression"},
         "expected a binary task. Received: the tasks .'stars'."),
        ({"user": "id", "brand": "id"}, {"click": "binary"},
         "an id feature that is the item, called 'item' or named by the "),
        ({"item": "id", "brand": "id"}, {"click": "binary"},
         "an id feature that is the user, called 'user' or named by the "),
    ],
)  # fmt: skip
def test_what_is_needed_is_told(
    features: dict[str, str], tasks: dict[str, str], message: str
) -> None:
    source = dataset(*KINDS["texts"], Schema("shop", features, tasks))
    with pytest.raises(DataError, match=message):
        with_negatives(source, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), "`negatives` must be at least 0. Received: negatives=-1"),
        ((1, "uniform", -2), "`evaluation_negatives` must be at least 0"),
        ((1, "rare"), "`negative_sampling` must be one of uniform, popularity"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        with_negatives(dataset(*KINDS["texts"]), *arguments)


def test_no_positive_row_is_an_error() -> None:
    source = dataset(*KINDS["texts"])
    train = source.split("train").assign(click=0.0)
    with pytest.raises(DataError, match="a training row with a 1 and an item"):
        with_negatives(Dataset(SCHEMA, {**source.splits, "train": train}), 1)


def test_columns_of_the_item() -> None:
    train = dataset(*KINDS["texts"]).split("train")
    assert item_columns(train, SCHEMA) == ["item", "brand", "tags"]
    named = Schema(
        "shop", FEATURES, {"click": "binary"}, item_features=["hour"]
    )
    assert item_columns(train, named) == ["item", "hour"]
    # Nothing shows of whom a feature is where each item is there once.
    assert item_columns(train.iloc[1:], SCHEMA) == ["item"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "log"
    folder.mkdir()
    number = np.arange(60)
    table = pd.DataFrame(
        {
            "who": [f"u{n % 9}" for n in number],
            "what": BIG + number * 7 % 11,
            "when": 1_700_000_000 + number,
        }
    )
    write_table(table, folder / "log.csv")
    return folder


OPTIONS = {
    "train": "log.csv",
    "ids": "who,what",
    "time": "when",
    "user": "who",
    "item": "what",
    "positive": "seen",
    "negatives": "4",
}


def test_a_log_of_positives_from_the_command_line(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    given = OPTIONS | {"evaluation_negatives": "2"}
    words = [x for name in given for x in ("--option", f"{name}={given[name]}")]
    status = run(
        ["prepare", "table", "--raw-dir", str(log), "--out", str(out), *words]
    )
    assert status == 0
    shown = capfd.readouterr().out
    assert "  168 negatives, for 42 positive rows; of the item: what" in shown
    source = load(out)
    assert source.schema.user_id == "who"
    assert source.schema.item_id == "what"
    train, test = source.split("train"), source.split("test")
    assert train["seen"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0] * 42
    assert test["seen"].tolist() == [1.0, 0.0, 0.0] * 9
    # Times do not fall, as rows stand behind what they are for.
    assert train["when"].is_monotonic_increasing
    assert train["what"].min() >= BIG


def test_the_same_seed_gives_the_same_bytes(log: Path, tmp_path: Path) -> None:
    written = []
    for number, seed in enumerate((0, 0, 1)):
        out = tmp_path / str(number)
        prepare("table", log, out, seed, progress=False, **OPTIONS)
        written.append((out / "train.parquet").read_bytes())
    assert written[0] == written[1] != written[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negatives": "0"}, "`positive` must come with negatives=1 or more"),
        ({"positive": "when"}, "log.csv: expected no column 'when'"),
        ({"item": "that"}, "'item': expected an id feature, of "),
        ({"negatives": "many"}, "negatives must be of type int"),
        ({"negative_sampling": "often"}, "one of uniform, popularity"),
        ({"item_features": "brand"}, "'item_features': expected features"),
    ],
)
def test_wrong_options_write_nothing(
    options: dict[str, str], message: str, log: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=message):
        prepare("table", log, out, progress=False, **(OPTIONS | options))
    assert not out.exists()
