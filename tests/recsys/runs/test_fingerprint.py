from pathlib import Path

import pytest

from recsys.runs.data_file import fingerprint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dataset.json").write_text("{}")
    (tmp_path / "train.csv.gz").write_text("a")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "part-0.csv").write_text("b")
    (tmp_path / "README").write_text("c")
    return tmp_path


def test_schema_and_splits_count(folder: Path) -> None:
    before = fingerprint(folder)
    assert list(before) == ["dataset.json", "test/part-0.csv", "train.csv.gz"]
    (folder / "README").write_text("d")
    assert fingerprint(folder) == before


def test_what_is_beside_the_parts_does_not_count(folder: Path) -> None:
    before = fingerprint(folder)
    (folder / "test" / "_SUCCESS").touch()
    (folder / "test" / ".part-0.csv.crc").write_text("d")
    assert fingerprint(folder) == before
    (folder / "test" / "part-1.csv").write_text("e")
    assert fingerprint(folder).keys() - before == {"test/part-1.csv"}
