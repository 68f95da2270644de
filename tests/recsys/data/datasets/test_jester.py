import io
import logging
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xlwt

import recsys.data.datasets.jester as jester_module
from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import Dataset
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.jester import parse_joke_ratings

CSV, XLS = Path("jester-data-1.csv"), Path("jester-data-1.xls")


def rows(num_users: int, seed: int = 0) -> np.ndarray:
    """Users who have each rated 30 to 69 jokes, as the files hold them."""
    rng = np.random.default_rng(seed)
    ratings = rng.uniform(-10, 10, (num_users, 100)).round(2)
    for row, count in zip(
        ratings, rng.integers(30, 70, num_users), strict=True
    ):
        row[rng.permutation(100)[count:]] = 99
    return np.column_stack([(ratings != 99).sum(axis=1), ratings])


def csv(table: np.ndarray, end: str = "\n") -> bytes:
    lines = (",".join(f"{value:g}" for value in row) + end for row in table)
    return "".join(lines).encode()


def xls(table: list[list[object]]) -> bytes:
    workbook = xlwt.Workbook()
    sheet = workbook.add_sheet("jester")
    for number, row in enumerate(table):
        for column, value in enumerate(row):
            sheet.write(number, column, value)
    stream = io.BytesIO()
    workbook.save(stream)
    return stream.getvalue()


def zipped(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def prepared(
    raw_dir: Path, out: Path, seed: int = 0, **options: str
) -> Dataset:
    prepare("jester", raw_dir, out, seed, progress=False, **options)
    return load(out)


def all_rows(dataset: Dataset) -> pd.DataFrame:
    splits = [dataset.split(name) for name in ("train", "validation", "test")]
    return pd.concat(splits).sort_values(["user", "item"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_forms_of_a_file(end: str) -> None:
    table = rows(6)
    expected = np.where(table == 99, np.nan, table)[:, 1:]
    from_csv = parse_joke_ratings(csv(table, end), CSV)
    from_xls = parse_joke_ratings(xls(table.tolist()), XLS)
    np.testing.assert_array_equal(from_csv, expected)
    np.testing.assert_array_equal(from_xls, expected)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, 3, ", data row 2 (counted from 1): expected as many ratings as its "
         "column 0 says, 3. Received: 40"),
        (7, 10.5, ", column 7, data row 2 (counted from 1): expected ratings "
         "from -10 to 10, or 99. Received: 10.5"),
        (7, "nan", ", column 7, data row 2 (counted from 1): expected ratings "
         "from -10 to 10, or 99. Received: nan"),
        (7, "good", ", data row 2 (counted from 1): expected 101 numbers. "
         "Received: 'good'"),
        (7, "", ", data row 2 (counted from 1): expected 101 numbers. "
         "Received: ''"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(
    column: int, value: object, message: str
) -> None:
    table: list[list[object]] = [
        [40.0, *[1.5] * 40, *[99.0] * 60] for _ in range(3)
    ]
    table[1][column] = value
    text = "\n".join(",".join(map(str, row)) for row in table)
    with pytest.raises(DataError) as caught:
        parse_joke_ratings(text.encode(), CSV)
    assert str(caught.value) == f"{CSV}{message}"
    with pytest.raises(DataError) as caught:
        parse_joke_ratings(xls(table), XLS)
    assert str(caught.value) == f"{XLS}{message}"


@pytest.mark.parametrize("width", [1, 100, 102])
def test_a_row_of_another_width_is_named(width: int) -> None:
    text = csv(rows(2)) + b",".join([b"99"] * width)
    with pytest.raises(DataError) as caught:
        parse_joke_ratings(text, CSV)
    assert str(caught.value) == (
        f"{CSV}, data row 3 (counted from 1): expected 101 numbers. "
        f"Received: {width} fields"
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>404</html>", csv(rows(2)).decode().encode("utf-16")],
)
def test_what_is_no_such_file(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^jester-data-1\.csv.*: expected"):
        parse_joke_ratings(content, CSV)
    with pytest.raises(
        DataError, match=r"^jester-data-1\.xls: expected an Exc"
    ):
        parse_joke_ratings(content, XLS)


def test_a_truncated_workbook() -> None:
    content = xls(rows(20).tolist())
    with pytest.raises(DataError, match=r"expected an Excel workbook"):
        parse_joke_ratings(content[: len(content) // 2], XLS)


def test_all_pairs_are_rows(tmp_path: Path) -> None:
    table = rows(20)
    (tmp_path / CSV).write_bytes(csv(table))
    dataset = prepared(tmp_path, tmp_path / "out")
    assert declarations(dataset.schema.features) == {"user": "id", "item": "id"}
    assert declarations(dataset.schema.tasks) == {
        "watch": "binary",
        "rating": "regression",
    }
    sizes = {"train": 1400, "validation": 300, "test": 300}
    share = (table[:, 1:] != 99).mean()
    for name, size in sizes.items():
        split = dataset.split(name)
        assert len(split) == size
        assert split["watch"].mean() == pytest.approx(share, abs=0.002)
    everything = all_rows(dataset)
    assert everything["user"].tolist() == np.repeat(range(1, 21), 100).tolist()
    assert everything["item"].tolist() == [*range(1, 101)] * 20
    ratings = table[:, 1:].ravel()
    expected = np.where(ratings == 99, np.nan, ratings / 5)
    np.testing.assert_array_equal(everything["rating"], expected)
    np.testing.assert_array_equal(everything["watch"], ratings != 99)


def test_parts_in_any_form_are_numbered_through(tmp_path: Path) -> None:
    first, second, third = rows(3, seed=1), rows(4, seed=2), rows(5, seed=3)
    third_xls = zipped("jester-data-3.xls", xls(third.tolist()))
    (tmp_path / "jester-data-1.zip").write_bytes(
        zipped("jester-data-1.csv", csv(first))
    )
    (tmp_path / "jester-data-2.xls").write_bytes(xls(second.tolist()))
    (tmp_path / "jester_dataset_1_3.zip").write_bytes(third_xls)
    everything = all_rows(prepared(tmp_path, tmp_path / "out", scale="1"))
    table = np.concatenate([first, second, third])[:, 1:].ravel()
    assert everything["user"].tolist() == np.repeat(range(1, 13), 100).tolist()
    expected = np.where(table == 99, np.nan, table)
    np.testing.assert_array_equal(everything["rating"], expected)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / CSV).write_bytes(csv(rows(5)))
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepared(raw, tmp_path / out, seed)
    first, again, other = (
        {path.name: path.read_bytes() for path in (tmp_path / out).iterdir()}
        for out in "abc"
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_outside_its_bounds(tmp_path: Path, scale: float) -> None:
    with pytest.raises(ValueError, match=r"`scale` must be positive and fini"):
        prepare("jester", tmp_path, tmp_path / "out", scale=scale)


def test_no_part_at_all(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        prepared(tmp_path, tmp_path / "out")
    assert str(caught.value) == (
        f"{tmp_path}: expected jester-data-1 to -3, each as .xls, .csv or "
        ".zip. Received: none of these files"
    )
    assert not list(tmp_path.iterdir())


def test_a_broken_part_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / CSV).write_bytes(csv(rows(5)))
    (tmp_path / "jester-data-2.csv").write_bytes(b"1,2,3\n")
    with pytest.raises(DataError, match=r"jester-data-2\.csv, data row 1 "):
        prepared(tmp_path, tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 2


def test_an_archive_of_something_else(tmp_path: Path) -> None:
    archive = zipped("joke_texts/init1.html", b"")
    (tmp_path / "jester-data-1.zip").write_bytes(archive)
    with pytest.raises(DataError, match=r"jester-data-1\.xls or jester-data-1"):
        prepared(tmp_path, tmp_path / "out")


def test_the_counts_of_all_parts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / CSV).write_bytes(csv(rows(5)))
    with caplog.at_level(logging.WARNING):
        prepared(raw, tmp_path / "a")
    assert caplog.messages == [
        f"{raw} holds 5 users, jester has 73421: prepared as a subset."
    ]
    release = {"users": 5, "ratings": 1}
    monkeypatch.setattr(jester_module, "RELEASE", release)
    with pytest.raises(DataError, match=r"expected {'users': 5, 'ratings': 1}"):
        prepared(raw, tmp_path / "b")


def test_the_real_first_part(real_data: Path) -> None:
    archive = real_data / "jester" / "jester-data-1.zip"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    with zipfile.ZipFile(archive) as folder:
        ratings = parse_joke_ratings(folder.read(CSV.name), CSV)
    assert ratings.shape == (24_983, 100)
    rated = ratings[~np.isnan(ratings)]
    assert len(rated) == 1_810_455
    assert rated.var() == pytest.approx(27.4, abs=0.05)


def test_a_scale_that_no_model_can_compute_with_leaves_nothing(
    tmp_path: Path,
) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    (raw_dir / "jester-data-1.csv").write_bytes(csv(rows(20)))
    with pytest.raises(DataError) as caught:
        prepared(raw_dir, tmp_path / "out", scale="1e-40")
    assert f"{tmp_path / 'out'}/train.parquet, column 'rating', data row " in (
        str(caught.value)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
