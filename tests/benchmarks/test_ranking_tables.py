from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.recsys.data.datasets.census_files import write_census

pytestmark = pytest.mark.once("torch")

Load = Callable[[str], ModuleType]


def test_the_people_of_one_file_are_split(
    load_script: Load, tmp_path: Path
) -> None:
    write_census(tmp_path, 3, 20)
    script = load_script("ranking_tables")
    dataset = script.census(tmp_path / "census-income.test")
    sizes = [len(dataset.split(name)) for name in dataset.splits]
    assert sizes == [14, 3, 3]
    kinds = [kind.type for kind in dataset.schema.features.values()]
    assert (kinds.count("number"), kinds.count("id")) == (7, 31)
    dataset.write(tmp_path / "census")


@pytest.mark.slow
def test_likes_are_ratings_of_4_and_more(
    load_script: Load, real_data: Path, tmp_path: Path
) -> None:
    script = load_script("ranking_tables")
    raw_dir = real_data / "ml-100k"
    dataset = script.likes(raw_dir, "time", tmp_path / "everything")
    assert list(dataset.schema.tasks) == ["like", "rating"]
    rows = sum(len(dataset.split(name)) for name in dataset.splits)
    assert rows == 100_000
    test = dataset.split("test")
    assert (test["like"] == (test["rating"] >= 4)).all()
