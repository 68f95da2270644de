from pathlib import Path

import pandas as pd
import pytest

from recsys.data import DataError
from recsys.data.items_file import read_titles
from recsys.data.items_file import write_items


def test_titles_by_id(tmp_path: Path) -> None:
    titles = ["Up", None, "7"]
    write_items(pd.DataFrame({"film": [3, 1, 2], "title": titles}), tmp_path)
    read = read_titles(tmp_path, "film")
    assert read is not None
    assert read.to_dict() == {3: "Up", 2: "7"}


def test_titles_of_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("item,title\nb,Up\n")
    read = read_titles(tmp_path, "item")
    assert read is not None
    assert read.to_dict() == {"b": "Up"}


@pytest.mark.parametrize("source", ["folder", "synthetic"])
def test_data_without_titles(tmp_path: Path, source: str) -> None:
    assert read_titles(tmp_path / source, "item") is None


def test_a_file_without_titles(tmp_path: Path) -> None:
    write_items(pd.DataFrame({"item": [1]}), tmp_path)
    assert read_titles(tmp_path, "item") is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"film": [1], "title": ["Up"]}, "a column 'item'"),
        ({"item": [1, 1], "title": ["Up", "Up"]}, "each item once"),
    ],
)
def test_a_broken_file(
    tmp_path: Path, columns: dict[str, list[object]], message: str
) -> None:
    write_items(pd.DataFrame(columns), tmp_path)
    with pytest.raises(DataError, match=message):
        read_titles(tmp_path, "item")
