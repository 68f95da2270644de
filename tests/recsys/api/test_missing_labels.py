import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recsys
from recsys.data import DataError
from recsys.data import Dataset

Settings = dict[str, Any]


@pytest.fixture
def unrated(tiny: Dataset, tmp_path: Path) -> Callable[[str], Path]:
    """Writes the tiny data set with a split that has no rating."""

    def write(split: str) -> Path:
        rows = tiny.split(split).assign(rating=np.nan)
        folder = tmp_path / f"unrated-{split}"
        Dataset(tiny.schema, {**tiny.splits, split: rows}).write(folder)
        return folder

    return write


@pytest.mark.once("torch")
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_split_in_which_nothing_counts_is_an_error(
    unrated: Callable[[str], Path],
    settings: Callable[..., Settings],
    tmp_path: Path,
    split: str,
) -> None:
    weights = {"watch": 0.0, "rating": 1.0}
    fields = settings(tmp_path / "run", task_weights=weights)
    folder = unrated(split)
    with pytest.raises(DataError) as caught:
        recsys.train(fields | {"data": str(folder)})
    assert str(caught.value).startswith(
        f"data set 'tiny' of {folder / 'dataset.json'}, {split} split: "
        "expected a label of at least one of ['rating']. Received: none in "
    )


@pytest.mark.once("torch")
@pytest.mark.slow
def test_a_task_without_labels_is_a_warning(
    unrated: Callable[[str], Path],
    settings: Callable[..., Settings],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fields = settings(tmp_path / "run", epochs=1)
    folder = unrated("validation")
    with caplog.at_level(logging.WARNING):
        metrics = recsys.train(fields | {"data": str(folder)})
    assert [text for text in caplog.messages if "no label" in text] == [
        f"data set 'tiny' of {folder / 'dataset.json'}: the validation split "
        "has no label of the task 'rating', which has neither loss nor metrics "
        "there."
    ]
    assert metrics["validation"]["tasks"]["rating"]["loss"] is None
    assert metrics["validation"]["loss"] > 0
    assert metrics["test"]["tasks"]["rating"]["loss"] is not None


@pytest.mark.once("torch")
def test_a_sample_without_labels_is_an_error(
    tiny: Dataset, settings: Callable[..., Settings], tmp_path: Path
) -> None:
    rows = tiny.split("train").copy()
    rows.loc[1:, ["watch", "rating"]] = np.nan
    rows.loc[0, "watch"] = 1.0
    folder = tmp_path / "data"
    Dataset(tiny.schema, {**tiny.splits, "train": rows}).write(folder)
    fields = settings(tmp_path / "run", train_rows=3)
    with pytest.raises(DataError, match=r"train split: .* none in 3 rows$"):
        recsys.train(fields | {"data": str(folder)})
