from pathlib import Path

import pytest

from recsys import RunError
from recsys.runs.data_file import check_data
from recsys.runs.data_file import has_same_split
from recsys.runs.data_file import write_data


@pytest.mark.parametrize("name", ["dataset.json", "train.csv", "test/part-1"])
def test_change_is_named(name: str, tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "run" / "data.json"
    (data / "test").mkdir(parents=True)
    (data / "dataset.json").write_text("{}")
    (data / "train.csv").write_text("a")
    write_data(file, str(data))
    check_data(file, str(data))
    (data / name).write_text("b")
    with pytest.raises(RunError, match=f"other data; changed: {name}$"):
        check_data(file, str(data))


def test_nothing_is_known_of_a_run_of_an_earlier_version(
    tmp_path: Path,
) -> None:
    check_data(tmp_path / "data.json", "nowhere")


def test_a_split_is_the_same_whatever_else_has_changed(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "run" / "data.json"
    (data / "validation").mkdir(parents=True)
    (data / "train.csv").write_text("a")
    (data / "validation" / "part-1.csv").write_text("a")
    assert not has_same_split(file, str(data), "validation")
    write_data(file, str(data))
    (data / "train.csv").write_text("b")
    assert has_same_split(file, str(data), "validation")
    assert not has_same_split(file, str(data), "train")
    assert not has_same_split(file, str(data), "test")  # There is none.
    (data / "validation" / "part-2.csv").write_text("c")
    assert not has_same_split(file, str(data), "validation")
