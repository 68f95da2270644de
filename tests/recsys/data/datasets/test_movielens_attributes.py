from pathlib import Path

import pytest
from rich.progress import Progress

from recsys.data import DataError
from recsys.data.datasets.movielens_attributes import ATTRIBUTES_1M
from recsys.data.datasets.movielens_attributes import ATTRIBUTES_100K

FLAGS = "|".join("0001000000000000001")
FILES_100K = {
    "u.user": "1|24|M|technician|85711\n2|53|F|other|T8H1N\n",
    "u.item": f"1|A | B (1995)|01-Jan-1995||http://x|{FLAGS}\n",
}
FILES_1M = {
    "users.dat": "1::F::1::10::48067\n2::M::56::16::98107-2117\n",
    "movies.dat": "7::Caf\xe9 :: A Film (1995)::Drama|War\n",
}


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="latin-1")
    return folder


def test_movielens_100k(tmp_path: Path) -> None:
    users, movies = ATTRIBUTES_100K.read(
        written(tmp_path, FILES_100K), "ml-100k.zip", Progress(disable=True)
    )
    assert users.values.tolist() == [
        [1, 24.0, "technician"],
        [2, 53.0, "other"],
    ]
    assert movies["item"].tolist() == [1]
    assert movies["title"].tolist() == ["A | B (1995)"]
    assert movies["genres"][0].tolist() == ["Animation", "Western"]


def test_movielens_1m(tmp_path: Path) -> None:
    users, movies = ATTRIBUTES_1M.read(
        written(tmp_path, FILES_1M), "ml-1m.zip", Progress(disable=True)
    )
    assert users.values.tolist() == [[1, 1.0, "10"], [2, 56.0, "16"]]
    assert movies["item"].tolist() == [7]
    assert movies["title"].tolist() == ["Caf\xe9 :: A Film (1995)"]
    assert movies["genres"][0].tolist() == ["Drama", "War"]


def test_a_broken_line(tmp_path: Path) -> None:
    files = {**FILES_1M, "users.dat": "1::F::1::10::48067\n2::M::56\n"}
    with pytest.raises(
        DataError, match=r"users\.dat, line 2: expected id, age"
    ):
        ATTRIBUTES_1M.read(
            written(tmp_path, files), "ml-1m.zip", Progress(disable=True)
        )
