import shutil
from pathlib import Path
from typing import Any

import pytest

from recsys.errors import FileError
from recsys.serving.model_store import ModelStore

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


def write_version(folder: Path, content: str) -> None:
    """A model that is a text; `broken` cannot be loaded."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_text(content)


def load_text(folder: Path) -> str:
    text = (folder / "saved_model.pb").read_text()
    if text.startswith("broken"):
        raise ValueError(f"{folder.name} is\n{text}")
    return text


@pytest.fixture
def store(tmp_path: Path) -> ModelStore[str]:
    return ModelStore(tmp_path, load_text)


def states(store: ModelStore[str]) -> dict[str, str]:
    return {item["version"]: item["state"] for item in store.statuses()}


def test_highest_version_is_served(
    store: ModelStore[str], tmp_path: Path
) -> None:
    for version in ("9", "10", "2"):
        write_version(tmp_path / version, version)
    store.refresh()
    assert store.served is not None
    assert (store.served.version, store.served.model) == (10, "10")
    assert states(store) == {"10": "AVAILABLE"}


def test_other_names_are_no_versions(
    store: ModelStore[str], tmp_path: Path
) -> None:
    for name in ("01", "-1", "1.5", "tmp", "¹", "9" * 20, "9" * 19):
        write_version(tmp_path / name, name)
    (tmp_path / "7").write_text("a file")
    store.refresh()
    assert store.served is None


def test_model_right_in_the_folder_is_version_1(
    store: ModelStore[str], tmp_path: Path
) -> None:
    write_version(tmp_path, "flat")
    store.refresh()
    assert store.served is not None
    assert (store.served.version, store.served.model) == (1, "flat")
    write_version(tmp_path / "2", "numbered")
    store.refresh()
    assert store.served.model == "numbered"


def test_new_version_takes_over(store: ModelStore[str], tmp_path: Path) -> None:
    write_version(tmp_path / "1", "one")
    store.refresh()
    before = store.served
    store.refresh()
    assert store.served is before
    write_version(tmp_path / "2", "two")
    store.refresh()
    assert store.served is not None
    assert store.served.model == "two"
    assert before is not None
    assert before.model == "one"


def test_broken_version_leaves_the_old_one(
    store: ModelStore[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_version(tmp_path / "1", "one")
    write_version(tmp_path / "2", "broken")
    for _ in range(3):
        store.refresh()
    assert store.served is not None
    assert store.served.version == 1
    assert store.statuses()[0] == {
        "version": "2",
        "state": "END",
        "status": {"error_code": "UNKNOWN", "error_message": "2 is broken"},
    }
    assert [record.message for record in caplog.records] == [
        "version 2 cannot be served: 2 is broken"
    ]
    store.check_served()


def test_broken_version_is_tried_again_once_it_has_changed(
    store: ModelStore[str], tmp_path: Path
) -> None:
    """As while it is being copied."""
    (tmp_path / "1").mkdir()
    store.refresh()
    assert states(store) == {"1": "END"}
    write_version(tmp_path / "1", "whole")
    store.refresh()
    assert states(store) == {"1": "AVAILABLE"}


def test_version_that_is_removed_is_forgotten(
    store: ModelStore[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for version, content in {"1": "one", "2": "two", "3": "broken"}.items():
        write_version(tmp_path / version, content)
    store.refresh()
    assert states(store) == {"3": "END", "2": "AVAILABLE"}
    for version in ("2", "3"):
        shutil.rmtree(tmp_path / version)
    store.refresh()
    assert states(store) == {"1": "AVAILABLE"}
    caplog.clear()
    shutil.rmtree(tmp_path / "1")
    for _ in range(3):
        store.refresh()
    assert states(store) == {"1": "AVAILABLE"}  # In memory.
    (record,) = caplog.records
    assert "version 1 is gone and no other can be loaded" in record.message


def test_version_that_is_being_loaded(tmp_path: Path) -> None:
    seen: list[Any] = []

    def load(folder: Path) -> str:
        seen.append(states(store))
        return folder.name

    store: ModelStore[str] = ModelStore(tmp_path, load)
    for version in ("1", "2"):
        write_version(tmp_path / version, version)
        store.refresh()
    assert seen == [{"1": "LOADING"}, {"2": "LOADING", "1": "AVAILABLE"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("broken", "1 is broken"),
        (None, r"expected a file of \['saved_model.pb'.*Received: none"),
    ],
)
def test_no_version_at_all(
    store: ModelStore[str], tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        write_version(tmp_path / "1", content)
    store.refresh()
    with pytest.raises(FileError, match=message):
        store.check_served()


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "nowhere", load_text)
    store.refresh()
    with pytest.raises(FileError, match="Received: no folder"):
        store.check_served()
