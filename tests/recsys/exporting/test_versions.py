from pathlib import Path

import pytest

from recsys.errors import RunError
from recsys.exporting.versions import next_version
from recsys.serving.version_labels import LABELS_FILE


def test_the_first_version_is_1(tmp_path: Path) -> None:
    assert next_version(tmp_path / "new") == tmp_path / "new" / "1"
    assert next_version(tmp_path) == tmp_path / "1"


def test_the_next_version_is_above_the_highest(tmp_path: Path) -> None:
    """A lower one that is free again would not be served."""
    for number in ("2", "0010", "9"):
        (tmp_path / number).mkdir()
    assert next_version(tmp_path) == tmp_path / "11"


def test_hidden_files_and_labels_are_no_versions(tmp_path: Path) -> None:
    (tmp_path / LABELS_FILE).touch()
    (tmp_path / ".unfinished-1-x").mkdir()
    (tmp_path / ".1.lock").touch()
    assert next_version(tmp_path) == tmp_path / "1"


@pytest.mark.parametrize("name", ["saved_model.pb", "1a", "-1", "\uff11"])
def test_a_folder_with_other_things_is_refused(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / name).touch()
    with pytest.raises(RunError, match=rf"only has versions.*holds '{name}'"):
        next_version(tmp_path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="which is a file"):
        next_version(tmp_path / "file")
