from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.census_income import WEIGHT
from tests.recsys.data.datasets.census_files import census_line
from tests.recsys.data.datasets.census_files import write_census


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    write_census(folder, 40, 21)
    return folder


def test_columns_and_labels(raw_dir: Path, tmp_path: Path) -> None:
    rows = prepare("census-income", raw_dir, tmp_path / "out")
    assert rows == {"train": 40, "validation": 11, "test": 10}
    dataset = load(tmp_path / "out")
    kinds = [kind.type for kind in dataset.schema.features.values()]
    assert (kinds.count("number"), kinds.count("id")) == (7, 31)
    lines = (raw_dir / "census-income.data").read_text().splitlines()
    for line, row in zip(
        lines, dataset.split("train").itertuples(), strict=True
    ):
        fields = line.split(", ")
        assert row.age == float(fields[0])
        assert row.race == fields[10]
        assert row.income == (fields[-1] == "50000+.")
        assert row.never_married == (fields[7] == "Never married")
    assert "?" in set(dataset.split("train")["race"])


def test_the_halves_are_those_of_the_seed(
    raw_dir: Path, tmp_path: Path
) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        prepare("census-income", raw_dir, tmp_path / name, seed=seed)
    first, same, other = (load(tmp_path / name).split("test") for name in "abc")
    assert_frame_equal(first, same)
    assert not first.equals(other)


def test_an_example_may_count_as_many_as_it_stands_for(
    raw_dir: Path, tmp_path: Path
) -> None:
    prepare("census-income", raw_dir, tmp_path / "out", weights="instance")
    dataset = load(tmp_path / "out")
    assert dataset.schema.weight == WEIGHT
    assert WEIGHT not in dataset.schema.features
    parts = [dataset.split(name)[WEIGHT] for name in ("validation", "test")]
    lines = (raw_dir / "census-income.test").read_text().splitlines()
    given = [float(line.split(", ")[24]) for line in lines]
    np.testing.assert_allclose(
        np.sort(pd.concat(parts)), np.sort(given), rtol=1e-6
    )


def test_a_broken_line(raw_dir: Path, tmp_path: Path) -> None:
    line = census_line(np.random.default_rng(0))
    cut = line.rpartition(", ")[0]
    (raw_dir / "census-income.test").write_text(f"{line}\n{cut}\n")
    with pytest.raises(DataError, match=r"test, line 2: expected 42 fields"):
        prepare("census-income", raw_dir, tmp_path / "out")


def test_a_number_that_is_none(raw_dir: Path, tmp_path: Path) -> None:
    line = census_line(np.random.default_rng(0))
    old = f"old{line[line.index(',') :]}\n"
    (raw_dir / "census-income.data").write_text(old)
    with pytest.raises(DataError, match="column 'age', data row 1 "):
        prepare("census-income", raw_dir, tmp_path / "out")


def test_unknown_weights(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`weights` must be 'none' or"):
        prepare("census-income", tmp_path, tmp_path / "out", weights="all")
