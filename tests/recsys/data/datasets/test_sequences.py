import gzip
import json
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from rich.progress import Progress

from recsys.data import Dataset
from recsys.data import load
from recsys.data.datasets.sequence_lines import parse_sequences
from recsys.data.datasets.sequences import earlier_items
from recsys.data.datasets.sequences import leave_one_out
from recsys.data.datasets.sequences import positions_of
from recsys.data.datasets.sequences import sequences
from recsys.data.prepare import prepare
from recsys.errors import DataError

SILENT = Progress(disable=True)
LARGE = 2**53 + 1
LINES = f"ann a b a c\nbob {LARGE} a\ncid b a {LARGE}\n"


def rows_of(dataset: Dataset, split: str) -> list[tuple[Any, ...]]:
    rows = dataset.split(split)
    histories = [list(before) for before in rows["history"]]
    return list(zip(rows["user"], rows["item"], histories, strict=True))


def prepared(folder: Path, text: str, **options: Any) -> Dataset:
    (folder / "log.txt").write_text(text, encoding="utf-8")
    return sequences(folder, 0, SILENT, file="log.txt", **options)


def test_the_last_item_is_tested_and_the_one_before_it_validated(
    tmp_path: Path,
) -> None:
    dataset = prepared(tmp_path, LINES)
    large = str(LARGE)
    assert rows_of(dataset, "train") == [
        ("ann", "a", []),
        ("ann", "b", ["a"]),
        ("bob", large, []),  # Too few items to be tested by.
        ("bob", "a", [large]),
        ("cid", "b", []),
    ]
    assert rows_of(dataset, "validation") == [
        ("ann", "a", ["a", "b"]),
        ("cid", "a", ["b"]),
    ]
    assert rows_of(dataset, "test") == [
        ("ann", "c", ["a", "b", "a"]),
        ("cid", large, ["b", "a"]),
    ]
    assert dataset.split("train")["position"].tolist() == [0, 1, 0, 1, 0]
    assert dataset.split("train")["chosen"].eq(1).all()


def test_a_line_for_each_interaction_says_the_same(tmp_path: Path) -> None:
    pairs = "".join(
        f"{line.split()[0]}\t{item}\r\n"
        for line in LINES.splitlines()
        for item in line.split()[1:]
    )
    by_user = prepared(tmp_path, LINES)
    by_item = prepared(tmp_path, pairs)
    for split in ("train", "validation", "test"):
        assert rows_of(by_item, split) == rows_of(by_user, split)


def test_integer_ids_stay_exact_integers(tmp_path: Path) -> None:
    dataset = prepared(tmp_path, f"-7 {LARGE} {LARGE + 1} 3\n\n")
    assert dataset.split("test")["item"].tolist() == [3]
    assert dataset.split("test")["history"][0].tolist() == [LARGE, LARGE + 1]
    assert dataset.split("test")["history"][0].dtype == np.int64
    assert dataset.split("train")["user"].dtype == np.int64


@pytest.mark.parametrize("odd", ["007", str(2**64), "é", "+7", "7.0"])
def test_ids_are_texts_as_soon_as_one_is(tmp_path: Path, odd: str) -> None:
    dataset = prepared(tmp_path, f"1 {odd} 7 8\n")
    assert rows_of(dataset, "test") == [(1, "8", [odd, "7"])]


def test_a_history_has_the_last_items(tmp_path: Path) -> None:
    dataset = prepared(tmp_path, "u a b c d e\n", length=2)
    assert rows_of(dataset, "test") == [("u", "e", ["c", "d"])]
    assert dataset.schema.features["history"].length == 2


@pytest.mark.parametrize("train_length", [0, 1])
def test_histories_of_training_may_be_shorter(
    tmp_path: Path, train_length: int
) -> None:
    dataset = prepared(tmp_path, "u a b c d e\n", train_length=train_length)
    assert rows_of(dataset, "test") == [("u", "e", ["a", "b", "c", "d"])]
    expected = [[], ["a"], ["b"]] if train_length else [[], [], []]
    assert [row[2] for row in rows_of(dataset, "train")] == expected


def test_the_folder_is_read_as_it_was_prepared(tmp_path: Path) -> None:
    (tmp_path / "log.txt.gz").write_bytes(gzip.compress(LINES.encode()))
    attributes = {"a": [LARGE, 2], "c": [], str(LARGE): ["x"]}
    (tmp_path / "attributes.json").write_text(json.dumps(attributes))
    options = {"file": "log.txt.gz", "attributes": "attributes.json"}
    for out in ("first", "second"):
        prepare("sequences", tmp_path, tmp_path / out, seed=0, **options)
    dataset = load(tmp_path / "first")
    test = dataset.split("test")
    assert test["history"].map(list).tolist() == [["a", "b", "a"], ["b", "a"]]
    assert test["attributes"].map(list).tolist() == [[], ["x"]]
    train = dataset.split("train")["attributes"].map(list).tolist()
    assert train[0] == [str(LARGE), "2"]
    assert dataset.schema.item_features == ["attributes"]
    assert dataset.schema.user_id == "user"
    assert dataset.schema.time == "position"
    for file in (tmp_path / "first").iterdir():
        assert (
            file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a 1 2\nb\n", "log.txt, line 2: expected a user and at least one "
         "item. Received: 'b'"),
        (b"\n", "expected a line with a user and items. Received: none"),
        (b"a 1\nb 2 3\n", "expected a user with at least 3 items. "
         "Received: at most 2 items of a user"),
        (b"a \xff 2 3\n", "expected ids in UTF-8. Received: "),
    ],
)  # fmt: skip
def test_what_is_no_sequence_is_refused(
    tmp_path: Path, text: bytes, message: str
) -> None:
    (tmp_path / "log.txt").write_bytes(text)
    with pytest.raises(DataError, match=re.escape(message)):
        sequences(tmp_path, 0, SILENT, file="log.txt")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"log\.txt: expected a file\."):
        sequences(tmp_path, 0, SILENT, file="log.txt")
    with pytest.raises(ValueError, match="`length` must be at least 1"):
        sequences(tmp_path, 0, SILENT, file="log.txt", length=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "expected an object with a list by item. Received: [1]"),
        ('{"a": 3}', "column 'a': expected a list of attributes. Received: 3"),
        ('{"a": [[3]]}', "expected single values in a list. Received: [3]"),
    ],
)
def test_attributes_of_another_form_are_refused(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "attributes.json").write_text(content)
    with pytest.raises(DataError, match=re.escape(message)):
        prepared(tmp_path, LINES, attributes="attributes.json")


logs = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=30
)


def parsed(log: list[tuple[int, int]]) -> pd.DataFrame:
    text = "".join(f"{user} {item}\n" for user, item in log)
    return parse_sequences(text.encode(), Path("log.txt"), SILENT)


@given(logs, st.integers(1, 5))
def test_histories_are_all_that_was_before_and_nothing_else(
    log: list[tuple[int, int]], length: int
) -> None:
    rows = parsed(log)
    positions, lengths = positions_of(rows["user"].to_numpy())
    items = rows["item"].to_numpy()
    before = earlier_items(items, positions, np.arange(len(rows)), length)
    for row, user in enumerate(rows["user"]):
        own = [item for one, item in log if one == user]
        place = positions[row]
        assert own[place] == items[row]
        assert before[row].tolist() == own[:place][-length:]
        assert lengths[row] == len(own)
    splits = leave_one_out(positions, lengths)
    everything = np.concatenate([*splits.values()])
    assert sorted(everything) == list(range(len(rows)))


@given(logs, st.data())
def test_a_changed_later_event_changes_nothing_earlier(
    log: list[tuple[int, int]], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(log) - 1))
    changed = [*log]
    changed[place] = (log[place][0], 10)
    found = []
    for one in (log, changed):
        rows = parsed(one)
        positions, _ = positions_of(rows["user"].to_numpy())
        items = rows["item"].to_numpy()
        before = earlier_items(items, positions, np.arange(len(rows)), 50)
        found.append([*zip(positions, before, strict=True)])
    user = log[place][0]
    position = sum(one == user for one, _ in log[:place])
    users = parsed(log)["user"]
    for owner, (at, was), (_, is_now) in zip(users, *found, strict=True):
        if owner != user or at <= position:
            assert was.tolist() == is_now.tolist()
        else:
            assert was[position] != is_now[position] == 10
