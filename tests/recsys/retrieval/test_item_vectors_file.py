"""Vectors of items in `items`, by which items without a row are found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import recsys
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.formats.table import write_table
from recsys.exporting.trial_rows import rows_of_test_split
from recsys.runs.run import Run
from tests.recsys.retrieval.id_kinds import IdKinds

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

NEW = (31, 32, 33)  # One for each third of the users.
KINDS = {"user": "id", "item": "id", "cover": {"type": "vector", "size": 3}}


@pytest.fixture
def folder(films: Dataset, ids: IdKinds, tmp_path: Path) -> Path:
    """Films with a vector that tells who watches them, but not in the rows."""
    folder = tmp_path / "films"
    folder.mkdir()
    schema = Schema("films", KINDS, {"watch": "binary"})
    (folder / "dataset.json").write_text(schema.to_json())
    for name, rows in films.splits.items():
        known = rows[rows["item"] != ids.item(99)]
        table = known[["user", "item", "watch"]]
        write_table(table, folder / f"{name}.parquet")
    numbers = [*range(30), *NEW]
    covers = [[float(n % 3 == k) for k in range(3)] for n in numbers]
    items = pd.DataFrame({"item": ids.items(numbers), "cover": covers})
    write_table(items, folder / "items.parquet")
    return folder


@pytest.mark.parametrize("streaming", [False, True])
def test_an_item_without_a_row_is_found(
    fields: Callable[..., dict[str, Any]],
    folder: Path,
    ids: IdKinds,
    streaming: bool,
    tmp_path: Path,
) -> None:
    run, more = tmp_path / "run", tmp_path / "more"
    given = {"data": str(folder), "select": None, "streaming": streaming}
    recsys.train(fields(run, **given))
    assert "cover" in Run(run).load_two_tower().retrieval.item_names
    recsys.add_items(run, folder / "items.parquet", more)
    for group in range(3):
        found = recsys.recommend(
            more, ids.user(group), 33, score="retrieval", candidates=33
        )
        places = {ids.number(item): at for at, item in enumerate(found["item"])}
        assert len(places) == 33
        first, *others = sorted(NEW, key=lambda n: (n % 3 != group, n))
        assert all(places[first] < places[other] for other in others)
        assert places[first] < 20  # Half of the known films are no better.


def test_an_export_is_tried_with_such_rows(
    fields: Callable[..., dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    recsys.train(fields(run, data=str(folder), select=None, epochs=1))
    ranker = Run(run).load_ranker()
    rows = rows_of_test_split(str(folder), 0, ranker, 5)
    assert rows["cover"].map(sum).tolist() == [1] * 5
