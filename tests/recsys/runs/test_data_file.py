from pathlib import Path

import pytest

from recsys import RunError
from recsys.runs.data_file import check_data
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
