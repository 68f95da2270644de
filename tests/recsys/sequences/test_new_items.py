"""Items without a row, which a tower finds by their features."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.progress import Progress

import recsys
from recsys.data.datasets.sequences import sequences
from recsys.data.formats.table import write_table
from tests.recsys.sequences.conftest import LARGE
from tests.recsys.sequences.conftest import fields

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]

KINDS, ITEMS = 6, 12  # Kinds of items, and items of a kind.
IdOf = Callable[[int], Any]


def write_data(folder: Path, id_of: IdOf) -> Path:
    """Users who stay with items of one kind, in any order."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    lines = []
    for user in range(200):
        items = user % KINDS + KINDS * rng.permutation(ITEMS)[:8]
        lines.append(" ".join(str(id_of(int(i))) for i in (user, *items)))
    (folder / "log.txt").write_text("\n".join(lines))
    kinds = {
        str(id_of(item)): [f"kind {item % KINDS}"]
        for item in range(KINDS * ITEMS)
    }
    (folder / "kinds.json").write_text(json.dumps(kinds))
    given: dict[str, Any] = {"file": "log.txt", "attributes": "kinds.json"}
    progress = Progress(disable=True)
    sequences(folder, 0, progress, length=8, **given).write(folder / "data")
    return folder / "data"


@pytest.mark.parametrize(
    "id_of", ["i{}".format, LARGE.__add__], ids=["texts", "integers"]
)
def test_new_items_stand_among_those_of_their_kind(
    id_of: IdOf, tmp_path: Path
) -> None:
    data = write_data(tmp_path / "log", id_of)
    run, grown = tmp_path / "run", tmp_path / "grown"
    options = {"tower_epochs": 15, "tower_patience": 15}
    recsys.train(fields(data, run, tower_id_dropout=0.3, **options))
    new = [id_of(1000 + kind) for kind in range(KINDS)]
    table = {"item": new, "attributes": [[f"kind {k}"] for k in range(KINDS)]}
    write_table(pd.DataFrame(table), tmp_path / "new.parquet")
    recsys.add_items(run, tmp_path / "new.parquet", grown)
    places = []
    for kind, item in enumerate(new):
        history = [id_of(kind + KINDS * place) for place in range(4)]
        found = recsys.recommend(
            grown, "nobody", KINDS * (ITEMS + 1), features={"history": history}
        )
        places.append(found["item"].tolist().index(item))
    # Nothing tells a new item from the twelve others of its kind. Where no ids
    # are dropped in training, it stands behind all of these.
    assert max(places) <= ITEMS
    assert np.mean(places) < 0.8 * ITEMS
