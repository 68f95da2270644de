from pathlib import Path

import pytest

from recsys import RunError
from recsys.data.fingerprint import fingerprint
from recsys.run import Run


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


@pytest.mark.parametrize(
    "name", ["dataset.json", "train.csv.gz", "test/part-0.csv", "test/part-1"]
)
def test_change_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.write_data(fingerprint(folder))
    run.check_data(fingerprint(folder))
    (folder / name).write_text("e")
    with pytest.raises(RunError, match=f"other ones; changed: {name}$"):
        run.check_data(fingerprint(folder))


def test_run_of_an_earlier_version_has_none(tmp_path: Path) -> None:
    Run(tmp_path).check_data({"train.csv": "1"})
