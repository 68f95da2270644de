import multiprocessing
import os
import subprocess
import sys
import textwrap
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from recsys.files.atomic import remove_all_unfinished
from recsys.files.atomic import replacing
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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


def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    with (
        pytest.raises(OSError, match="No space left") as caught,
        replacing(path) as unfinished,
        unfinished.open("wb"),
        Path("/dev/full").open("wb") as full,
    ):
        full.write(b"7" * (1 << 20))
    assert str(caught.value) == f"[Errno 28] No space left on device: '{path}'"
    assert not list(tmp_path.iterdir())


def test_another_error_of_the_system_keeps_its_file(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError) as caught,
        replacing(tmp_path / "out.csv"),
    ):
        (tmp_path / "in.csv").read_bytes()
    assert caught.value.filename == str(tmp_path / "in.csv")


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


def test_file_and_folder_have_the_usual_permissions(tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.mkdir()
    (usual / "file").touch()
    with replacing(tmp_path / "out") as unfinished:
        unfinished.mkdir()
        (unfinished / "file").touch()
    for name in (".", "file"):
        mode = (tmp_path / "out" / name).stat().st_mode
        assert mode == (usual / name).stat().st_mode


def test_left_over_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    _kill_while_writing(tmp_path / "a.json")
    _kill_while_writing(tmp_path / "a.json.gz")
    assert len(names(tmp_path)) == 2
    write_json(tmp_path / "a.json", 1)
    first, second = names(tmp_path)
    assert first.startswith(".unfinished-a.json.gz-")
    assert second == "a.json"


@pytest.mark.parametrize("name", ["y" * 250 + ".json", "é" * 125 + ".json"])
def test_a_name_as_long_as_names_may_be(tmp_path: Path, name: str) -> None:
    _kill_while_writing(tmp_path / name)
    assert names(tmp_path)[0].startswith(f".unfinished-{name[:90]}")
    write_json(tmp_path / name, 1)
    assert names(tmp_path) == [name]


def test_left_overs_are_found_at_any_depth(tmp_path: Path) -> None:
    (tmp_path / "deep" / "down").mkdir(parents=True)
    _kill_while_writing(tmp_path / "deep" / "down" / "a.json")
    _kill_while_writing(tmp_path / "deep" / "b.json")
    remove_all_unfinished(tmp_path)
    assert names(tmp_path / "deep") == ["down"]
    assert names(tmp_path / "deep" / "down") == []
    remove_all_unfinished(tmp_path / "nowhere")


def test_what_is_being_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with replacing(path) as first:
        first.write_text("first")
        remove_all_unfinished(tmp_path)
        with replacing(path) as second:
            second.write_text("second")
            assert first.read_text() == "first"
            assert first != second
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.slow
def test_processes_that_write_at_once_do_not_mix(tmp_path: Path) -> None:
    """All write to one place again and again; it is always whole."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    path = tmp_path / "a.txt"
    writers = [
        context.Process(target=_write_often, args=(path, letter, barrier))
        for letter in "abc"
    ]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if path.is_file():
            text = path.read_text()
            assert len(text) == 1000
            assert len(set(text)) == 1
            seen.add(text[0])
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(seen) > 1
    assert names(tmp_path) == ["a.txt"]


def _write_often(path: Path, letter: str, barrier: Barrier) -> None:
    barrier.wait(timeout=60)
    for _ in range(200):
        with replacing(path) as unfinished, unfinished.open("w") as file:
            for _ in range(10):
                file.write(letter * 100)
                file.flush()


def _kill_while_writing(path: Path) -> None:
    code = textwrap.dedent(
        f"""
        import os, pathlib
        from recsys.files.atomic import replacing
        with replacing(pathlib.Path({os.fspath(path)!r})) as unfinished:
            unfinished.write_text("half")
            os.kill(os.getpid(), 9)
        """
    )
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -9


def _write_half(path: Path) -> None:
    with replacing(path) as unfinished:
        unfinished.write_text("half")
        assert unfinished.name == path.name
        raise KeyboardInterrupt


def _make_half(path: Path) -> None:
    with replacing(path) as unfinished:
        unfinished.mkdir()
        (unfinished / "half").touch()
        raise KeyboardInterrupt
