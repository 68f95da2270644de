import gc
import weakref
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from keras.ops import convert_to_numpy as to_numpy
from pyarrow import parquet

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import Schema
from recsys.data import read_table
from recsys.data import write_table
from recsys.models.scorer import Scorer
from recsys.runs.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz"])
def test_adds_a_column_for_each_task(
    suffix: str, run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    frame = tiny.split("test")[["film", "user", "age"]].assign(note="kept")
    frame.to_csv(tmp_path / "in.csv", index=False)
    out = tmp_path / f"out{suffix}"
    assert recsys.predict(run, tmp_path / "in.csv", out) == 40
    table = read_table(out)
    assert list(table) == ["film", "user", "age", "note", "watch", "rating"]
    ranker = Run(run).load_model()
    expected = ranker(ranker.encode(tiny.split("test")))
    for task in ("watch", "rating"):
        np.testing.assert_allclose(
            table[task].astype("float64"),
            to_numpy(expected[task])[:, 0],
            rtol=1e-5,
        )


def test_labels_are_kept_beside_the_predictions(
    run: Path, data: Path, tiny: Dataset, tmp_path: Path
) -> None:
    recsys.predict(run, data / "test.parquet", tmp_path / "out.parquet")
    table = pd.read_parquet(tmp_path / "out.parquet")
    frame = tiny.split("test")
    assert table["watch_label"].equals(frame["watch"])
    assert table["watch"].between(0, 1, inclusive="neither").all()


def test_unknown_ids_and_missing_values_are_no_error(
    run: Path, tmp_path: Path
) -> None:
    table = tmp_path / "in.csv"
    table.write_text("user,film,age\n999,new,31\n,,\n1,é1,\n")
    assert recsys.predict(run, table, tmp_path / "out.csv") == 3
    assert read_table(tmp_path / "out.csv")["rating"].notna().all()


def test_no_rows(run: Path, tiny: Dataset, tmp_path: Path) -> None:
    tiny.split("test")[:0].to_parquet(tmp_path / "in.parquet")
    recsys.predict(run, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert pd.read_parquet(tmp_path / "out.parquet")["watch"].shape == (0,)


def test_a_feature_that_is_left_out_is_missing_in_every_row(
    run: Path, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole.csv", tmp_path / "part.csv"
    whole.write_text("shop,user,film,age\n7,1,,31\n8,2,,\n")
    part.write_text("shop,user,age\n7,1,31\n8,2,\n")
    recsys.predict(run, whole, tmp_path / "expected.csv")
    with pytest.warns(UserWarning, match="leaves out") as caught:
        recsys.predict(run, part, tmp_path / "out.csv")
    told = [str(one.message) for one in caught if "leaves" in str(one.message)]
    assert told == [f"{part} leaves out 'film': missing in every row"]
    found = read_table(tmp_path / "out.csv")
    assert [*found] == ["shop", "user", "age", "watch", "rating"]
    expected = read_table(tmp_path / "expected.csv")
    pd.testing.assert_frame_equal(found, expected.drop(columns="film"))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("user,fillm,age", "a column 'film' (did you mean 'fillm'?), or an"),
        ("user,FILM,age", "a column 'film' (did you mean 'FILM'?), or an"),
        ("a,b,c", "columns among the features ['user', 'film', 'age']"),
    ],
)
def test_names_that_are_mistyped(
    run: Path, tmp_path: Path, header: str, message: str
) -> None:
    table = tmp_path / "in.csv"
    table.write_text(f"{header}\n1,é1,31\n")
    with pytest.raises(DataError) as caught:
        recsys.predict(run, table, tmp_path / "out.csv")
    assert f"{table}: expected {message}" in str(caught.value)
    assert not (tmp_path / "out.csv").exists()


def test_wrong_value_is_named(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("user,film,age\n1,é1,31\n1,é1,old\n")
    with pytest.raises(DataError, match="column 'age', data row 2"):
        recsys.predict(run, table, tmp_path / "out.csv")


def test_unknown_suffix_of_the_output(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`out`.*'out\.xlsx'"):
        recsys.predict(run, tmp_path / "in.csv", tmp_path / "out.xlsx")


def test_label_column_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("user,film,age,watch,watch_label\n1,é1,31,1,0\n")
    with pytest.raises(DataError, match="no column 'watch_label'"):
        recsys.predict(run, table, tmp_path / "out.csv")


def test_a_task_may_be_named_like_an_argument_of_pandas(
    tiny: Dataset, settings: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    splits = {
        name: rows.rename(columns={"watch": "self"}).drop(columns="rating")
        for name, rows in tiny.splits.items()
    }
    schema = Schema("tiny", tiny.schema.features, {"self": "binary"})
    Dataset(schema, splits).write(tmp_path / "data")
    recsys.train(
        settings(tmp_path / "run", data=str(tmp_path / "data"), epochs=1)
    )
    write_table(splits["test"], tmp_path / "rows.csv")
    recsys.predict(
        tmp_path / "run", tmp_path / "rows.csv", tmp_path / "scored.csv"
    )
    scored = pd.read_csv(tmp_path / "scored.csv")
    assert scored["self"].between(0, 1).all()
    assert scored["self_label"].tolist() == splits["test"]["self"].tolist()


@pytest.fixture
def rows(tiny: Dataset) -> pd.DataFrame:
    notes = [None, *range(1, 40)]
    return tiny.split("test").assign(note=pd.Series(notes, dtype="Int64"))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz"])
def test_rows_in_groups_are_predicted_as_all_at_once(
    suffix: str, run: Path, rows: pd.DataFrame, tmp_path: Path
) -> None:
    tables = []
    for size in (40, 16):
        table = tmp_path / f"{size}.parquet"
        rows.to_parquet(table, row_group_size=size)
        out = tmp_path / f"scored-{size}{suffix}"
        assert recsys.predict(run, table, out) == 40
        numbers = dict.fromkeys(("watch", "rating"), "float64")
        tables.append(read_table(out).astype(numbers))
    whole, groups = tables
    assert groups["note"].dtype == "Int64"
    pd.testing.assert_frame_equal(groups, whole, rtol=1e-5)


def test_one_group_is_in_memory_at_a_time(
    run: Path,
    rows: pd.DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    score, seen = Scorer.score, []

    def watched(self: Scorer, split: pd.DataFrame) -> Any:
        gc.collect()
        assert all(earlier() is None for _, earlier in seen)
        seen.append((len(split), weakref.ref(split)))
        return score(self, split)

    monkeypatch.setattr(Scorer, "score", watched)
    rows.to_parquet(tmp_path / "in.parquet", row_group_size=16)
    recsys.predict(run, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert [size for size, _ in seen] == [16, 16, 8]


def test_a_folder_of_parts(
    run: Path, rows: pd.DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    rows[:30].to_csv(tmp_path / "in" / "9.csv", index=False)
    texts = rows[30:].assign(user="new", note="007")
    texts.to_csv(tmp_path / "in" / "10.csv", index=False)
    recsys.predict(run, tmp_path / "in", tmp_path / "out.parquet")
    scored = read_table(tmp_path / "out.parquet")
    assert (
        scored["user"].tolist() == [*map(str, rows["user"][:30])] + ["new"] * 10
    )
    assert scored["note"].tolist()[28:32] == ["28", "29", "007", "007"]
    rows.to_csv(tmp_path / "in.csv", index=False)
    recsys.predict(run, tmp_path / "in.csv", tmp_path / "whole.csv")
    expected = pd.read_csv(tmp_path / "whole.csv")
    for task in ("watch", "rating"):
        np.testing.assert_allclose(
            scored[task][:30], expected[task][:30], rtol=1e-5
        )
        assert scored[task].notna().all()


def test_a_wrong_value_in_a_later_group_is_named_with_its_row(
    run: Path, rows: pd.DataFrame, tmp_path: Path
) -> None:
    rows.loc[35, "film"] = float("nan")
    rows.loc[36, "age"] = float("inf")
    rows.to_parquet(tmp_path / "in.parquet", row_group_size=16)
    with pytest.raises(DataError, match="column 'age', data row 37 "):
        recsys.predict(run, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["in.parquet"]


@pytest.mark.once("torch")
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
def test_columns_of_a_text_file_are_kept_as_they_are(
    suffix: str, run: Path, tmp_path: Path
) -> None:
    texts = {
        "user": ["999", "1.0", None],
        "film": ["é1", "007", "1e5"],
        "age": ["31.50", "1e1", "NA"],
        "version": ["10.1", "10.10", "1e5"],
        "flag": ["true", "True", None],
        "note": ["NaN", None, 'a "b", c'],
        "watch": ["1.00", None, "0"],
    }
    frame = pd.DataFrame(texts)
    frame.to_csv(tmp_path / "in.csv", index=False)
    recsys.predict(run, tmp_path / "in.csv", tmp_path / f"out{suffix}")
    table = read_texts(tmp_path / f"out{suffix}")
    for name, column in texts.items():
        kept = "watch_label" if name == "watch" else name
        assert [text or None for text in table[kept]] == column


def read_texts(file: Path) -> Any:
    if file.suffix == ".parquet":
        return parquet.read_table(file).to_pydict()
    separator = "\t" if ".tsv" in file.suffixes else ","
    return pd.read_csv(
        file, sep=separator, dtype=str, keep_default_na=False
    ).to_dict("list")


@pytest.mark.once("torch")
def test_columns_of_a_parquet_file_keep_their_types(
    run: Path, tmp_path: Path
) -> None:
    accounts = [Decimal("12345678901234567891"), Decimal(10**19), None]
    table = pa.table(
        {
            "user": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "film": pa.array(["é1", None, "x"]).dictionary_encode(),
            "age": pa.array([Decimal("31.50"), None, Decimal(4)]),
            "account": pa.array(accounts, pa.decimal128(20, 0)),
            "at": pa.array([1, None, 2], pa.timestamp("us", "Europe/Berlin")),
            "place": pa.array([{"x": [1]}, None, {"x": None}]),
            "raw": pa.array([b"\xff", None, b""]),
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    recsys.predict(run, tmp_path / "in.parquet", tmp_path / "out.parquet")
    kept = parquet.read_table(tmp_path / "out.parquet")
    assert kept.column_names == [*table.column_names, "watch", "rating"]
    kept = kept.select(table.column_names)
    assert kept.schema.types == table.schema.types
    assert kept.to_pydict() == table.to_pydict()


@pytest.mark.once("torch")
def test_an_id_is_the_same_whatever_the_type_of_its_part(
    run: Path, rows: pd.DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    parts = [
        rows[:10],
        rows[10:20].astype({"user": "float64"}),
        rows[20:30].astype({"user": str, "film": "category"}),
        rows[30:].assign(
            user=pd.array(
                rows["user"][30:], pd.ArrowDtype(pa.decimal128(20, 0))
            )
        ),
    ]
    for index, part in enumerate(parts):
        part.to_parquet(tmp_path / "in" / f"{index}.parquet", index=False)
    rows.to_parquet(tmp_path / "whole.parquet")
    recsys.predict(run, tmp_path / "in", tmp_path / "parts.csv")
    recsys.predict(run, tmp_path / "whole.parquet", tmp_path / "whole.csv")
    scored = pd.read_csv(tmp_path / "parts.csv")
    expected = pd.read_csv(tmp_path / "whole.csv")
    pd.testing.assert_frame_equal(scored, expected, rtol=1e-5)


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("table", "out"),
    [
        ("in/1.csv", "in/1.csv"),
        ("in/1.csv", "link.csv"),
        ("in/1.csv", "hard.csv"),
        ("link.csv", "in/1.csv"),
        ("in", "in/scored.csv"),
        ("in", "inner/scored.csv"),
        ("inner", "in/2.csv"),
    ],
)
def test_an_output_that_is_the_input(
    table: str, out: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "1.csv"
    file.write_text("user,film,age\n1,é1,31\n")
    (tmp_path / "link.csv").symlink_to(file)
    (tmp_path / "hard.csv").hardlink_to(file)
    (tmp_path / "inner").symlink_to(tmp_path / "in")
    with pytest.raises(DataError) as caught:
        recsys.predict(run, tmp_path / table, tmp_path / out)
    assert str(caught.value) == (
        "`out`: expected a path outside the input, "
        f"{tmp_path / table}. Received: {tmp_path / out}"
    )
    assert file.read_text() == "user,film,age\n1,é1,31\n"
    assert [part.name for part in (tmp_path / "in").iterdir()] == ["1.csv"]


@pytest.mark.once("torch")
def test_a_full_disk_is_told_with_the_output(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "in.csv"
    table.write_text("user,film,age\n1,é1,31\n")
    out = tmp_path / "out.csv"

    @contextmanager
    def on_full_disk(path: Path, schema: Any) -> Iterator[Any]:
        with open("/dev/full", "wb", buffering=0) as file:
            yield lambda table: file.write(b"7" * table.num_rows)

    monkeypatch.setattr("recsys.api.predict.table_writer", on_full_disk)
    with pytest.raises(OSError, match="No space left") as caught:
        recsys.predict(run, table, out)
    assert caught.value.filename == str(out)
    assert [file.name for file in tmp_path.iterdir()] == ["in.csv"]
