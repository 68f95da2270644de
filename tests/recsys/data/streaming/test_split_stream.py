import gc
import tempfile
from collections.abc import Callable
from functools import partial
from functools import partialmethod
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal
from pyarrow.parquet import ParquetWriter

from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import read_table
from recsys.data.columns import parse
from recsys.data.dataset import unify
from recsys.data.streaming.frames import column_parts
from recsys.features.list_values import is_packed
from tests.recsys.data.streaming.parts import FRAME
from tests.recsys.data.streaming.parts import SCHEMA
from tests.recsys.data.streaming.parts import opened
from tests.recsys.data.streaming.parts import write

any_suffix = pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz"])

Writer = Callable[..., Path]
CREATE = ParquetWriter.__init__


@pytest.fixture
def write_parts(tmp_path: Path) -> Writer:
    return partial(write, tmp_path)


@any_suffix
def test_units_together_are_the_split(write_parts: Writer, suffix: str) -> None:
    texts = FRAME.assign(user=pd.Series(["a", "b", "c", "007", "7", None]))
    folder = write_parts(suffix, FRAME[:5], FRAME[:0], texts)
    stream = opened(folder)
    assert [unit.num_rows for unit in stream.units] == [2, 2, 1, 2, 2, 2]
    assert len(stream) == 11
    parts = [(stream.file(unit), stream.read(unit)) for unit in stream.units]
    unify(parts, SCHEMA.features)
    frames = [frame for _, frame in parts]
    expected = Dataset.read(folder).split("train")
    joined = pd.concat(frames, ignore_index=True)
    for frame in (joined, expected):
        frame["tags"] = frame["tags"].map(list)
        frame["user"] = frame["user"].astype(object)
    assert_frame_equal(joined, expected)


def test_lists_of_integers_are_not_taken_apart_by_rows(
    write_parts: Writer,
) -> None:
    numbers = FRAME.assign(tags=[[3, 1], [], [7], None, [1], [3]])
    folder = write_parts(".parquet", numbers)
    stream = opened(folder)
    assert all(map(is_packed, column_parts(stream, "tags")))
    # Other splits have texts, which these are in memory, too.
    held = Dataset.read(folder).split("train")
    drawn = stream.sample(4, random_state=1)
    expected = held.sample(4, random_state=1)
    for frame in (drawn, expected):
        frame["tags"] = frame["tags"].map(lambda ids: [*map(str, ids)])
    assert_frame_equal(drawn, expected)
    assert stream["tags"].map(list).tolist() == [[3, 1], [], [7], [], [1], [3]]


def test_lists_of_integers_beside_lists_of_texts(write_parts: Writer) -> None:
    numbers = FRAME.assign(tags=[[3, 1], [], [7], None, [1], [3]])
    stream = opened(write_parts(".parquet", numbers, FRAME))
    assert stream["tags"].map(list).tolist()[4:8] == [
        ["1"],
        ["3"],
        ["a", "b"],
        [],
    ]


def test_a_text_column_has_one_type_in_all_units(write_parts: Writer) -> None:
    late = FRAME.assign(user=["1", "2", "3", "4", "5", "007"])
    stream = opened(write_parts(".csv", late))
    users = [stream.read(unit)["user"].tolist() for unit in stream.units]
    assert users == [["1", "2"], ["3", "4"], ["5", "007"]]


@any_suffix
@pytest.mark.parametrize("column", ["age", "tags", "watch", "user"])
def test_a_wrong_value_is_named_as_in_memory(
    write_parts: Writer, suffix: str, column: str
) -> None:
    if column in ("tags", "user") and suffix != ".parquet":
        pytest.skip("any text is an id")
    wrong = FRAME.astype({"user": "float64", "watch": "float64"})
    wrong["tags"] = [[7.0], [], [8.0], [], [9.0, 0.5], [7.0]]
    if column != "tags":
        wrong["tags"] = FRAME["tags"]
        wrong.loc[4, column] = 0.5 if column != "age" else float("inf")
    folder = write_parts(suffix, FRAME, wrong)
    file = folder / "train" / f"1{suffix}"
    with pytest.raises(DataError) as expected:
        parse(read_table(file), SCHEMA.columns, file)
    stream = opened(folder)
    with pytest.raises(DataError) as caught:
        list(map(stream.read, stream.units))
    assert str(caught.value) == str(expected.value)
    assert f"1{suffix}, column '{column}', data row 5" in str(caught.value)


@any_suffix
def test_a_missing_column_is_named_before_a_row_is_read(
    write_parts: Writer, suffix: str
) -> None:
    folder = write_parts(suffix, FRAME, FRAME.drop(columns="age"))
    with pytest.raises(DataError) as caught:
        opened(folder)
    assert str(caught.value).removeprefix(str(folder)) == (
        f"/train/1{suffix}: expected a column 'age'. "
        "Received: the columns ['title', 'user', 'tags', 'watch']"
    )


@any_suffix
def test_no_rows(write_parts: Writer, suffix: str) -> None:
    folder = write_parts(suffix, FRAME[:0], FRAME[:0])
    with pytest.raises(DataError) as caught:
        opened(folder)
    message = str(caught.value).removeprefix(str(folder))
    assert message == "/train: expected at least one row. Received: no rows"


@any_suffix
def test_a_broken_part(write_parts: Writer, suffix: str) -> None:
    folder = write_parts(suffix, FRAME)
    (folder / "train" / f"1{suffix}").write_bytes(b"\xff\xfe\n1,2\n1\n")
    with pytest.raises(DataError, match=rf"train/1{suffix}"):
        opened(folder)


@any_suffix
def test_a_part_that_is_gone(write_parts: Writer, suffix: str) -> None:
    folder = write_parts(suffix, FRAME, FRAME)
    part = folder / "train" / f"1{suffix}"
    if suffix == ".parquet":
        stream = opened(folder)
        part.unlink()
        with pytest.raises(DataError) as caught:
            stream.read(stream.units[-1])
        expected = "a Parquet file. Received: none of that name"
    else:
        part.unlink()
        part.symlink_to("gone")
        with pytest.raises(DataError) as caught:
            opened(folder)
        expected = "a file. Received: a broken link"
    assert str(caught.value) == f"{part}: expected {expected}"


def test_a_full_disk_is_told_with_the_file(
    write_parts: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_parts(".csv", FRAME)
    full = Path("/dev/full")
    monkeypatch.setattr(
        ParquetWriter, "__init__", partialmethod(on_full_disk, full)
    )
    with pytest.raises(OSError, match="No space left on device") as caught:
        opened(folder)
    assert str(caught.value.filename).endswith("0.parquet")


def on_full_disk(
    self: ParquetWriter, full: Path, file: Path, schema: pa.Schema
) -> None:
    CREATE(self, full, schema)


def test_a_row_of_another_length_is_named(write_parts: Writer) -> None:
    folder = write_parts(".csv", FRAME)
    rows = ["user,age,tags,watch", *["1,2,a,1"] * 6, "1,2,a", "1,2,a,1"]
    (folder / "train" / "1.csv").write_text("\n".join(rows))
    with pytest.raises(DataError, match=r"1\.csv, data row 7 .*4 fields"):
        opened(folder)


@pytest.mark.parametrize(("suffix", "count"), [(".parquet", 0), (".csv", 2)])
def test_text_alone_is_copied_as_long_as_the_stream_is(
    write_parts: Writer,
    suffix: str,
    count: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    stream = opened(write_parts(suffix, FRAME, FRAME))
    stream.read(stream.units[0])
    assert len(list(scratch.rglob("*.parquet"))) == count
    del stream
    gc.collect()
    assert not list(scratch.iterdir())


@any_suffix
def test_whole_columns_are_those_in_memory(
    write_parts: Writer, suffix: str
) -> None:
    texts = FRAME.assign(user=pd.Series(["a", "b", "c", "007", "7", None]))
    folder = write_parts(suffix, FRAME, texts)
    table = opened(folder)[["watch", "user"]]
    expected = Dataset.read(folder).split("train")[["watch", "user"]]
    assert_frame_equal(
        table.astype({"user": object}), expected.astype({"user": object})
    )


@any_suffix
@pytest.mark.parametrize("n", [1, 7, 12])
def test_a_sample_is_that_of_the_split_in_memory(
    write_parts: Writer, suffix: str, n: int
) -> None:
    folder = write_parts(suffix, FRAME, FRAME)
    sample = opened(folder).sample(n, random_state=0)
    expected = Dataset.read(folder).split("train").sample(n, random_state=0)
    for frame in (sample, expected):
        frame["tags"] = frame["tags"].map(list)
        frame["user"] = frame["user"].astype("Int64")
    assert_frame_equal(sample, expected)
