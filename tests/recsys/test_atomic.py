from pathlib import Path

import pytest

from recsys.atomic import replacing
from recsys.json_files import read_json
from recsys.json_files import write_json


def test_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": "é"})
    assert read_json(path) == {"a": "é"}
    assert list(path.parent.iterdir()) == [path]


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        _write_half(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_left_over_of_a_killed_process_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".unfinished-a.json").mkdir()
    write_json(tmp_path / "a.json", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_folder_takes_the_place_of_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with replacing(tmp_path / "out") as unfinished:
        unfinished.mkdir()
        (unfinished / "a").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "a"]


def test_failure_removes_a_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _make_half(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def _write_half(path: Path) -> None:
    with replacing(path) as unfinished:
        unfinished.write_text("half")
        assert unfinished.suffix == path.suffix
        raise KeyboardInterrupt


def _make_half(path: Path) -> None:
    with replacing(path) as unfinished:
        unfinished.mkdir()
        (unfinished / "half").touch()
        raise KeyboardInterrupt
