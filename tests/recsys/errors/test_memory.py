from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from recsys.errors import memory
from recsys.errors.memory import free_memory
from recsys.errors.memory import left_by_groups


def group(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")
    return folder


def test_what_groups_of_both_versions_leave(tmp_path: Path) -> None:
    second = group(
        tmp_path / "2",
        memory__max=1000,
        memory__current=700,
        memory__stat="anon 500\ninactive_file 150",
    )
    first = group(
        tmp_path / "1",
        memory__limit_in_bytes=900,
        memory__usage_in_bytes=800,
        memory__stat="total_inactive_file 50\ninactive_file 20",
    )
    unbounded = group(tmp_path / "0", memory__max="max", memory__current=9)
    gone = tmp_path / "gone"
    assert left_by_groups([second, first, unbounded, gone]) == [450, 150]


@pytest.mark.parametrize(
    ("lines", "place"),
    [("0::/a/b", "a"), ("0::/\n4:cpu,memory:/c", "memory/c"), ("0::/x", "")],
)
def test_the_least_counts(
    lines: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the system, the group of the process and those that hold it."""
    (tmp_path / "own").write_text(lines)
    group(tmp_path / "groups" / place, memory__max=500, memory__current=100)
    if place.startswith("memory"):
        group(
            tmp_path / "groups" / place,
            memory__limit_in_bytes=500,
            memory__usage_in_bytes=100,
        )
    monkeypatch.setattr(memory, "_OF_THIS_PROCESS", tmp_path / "own")
    monkeypatch.setattr(memory, "_GROUPS", tmp_path / "groups")
    free = SimpleNamespace(available=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert free_memory() == 400
    free.available = 300
    assert free_memory() == 300


def test_without_groups_the_system_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_OF_THIS_PROCESS", tmp_path / "none")
    free = SimpleNamespace(available=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    assert free_memory() == 1000
