"""Towers that go on from those of other runs, on new data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops
from rich.progress import Progress

import recsys
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.datasets.sequences import sequences
from recsys.data.formats.table import write_table
from recsys.runs.run import Run
from recsys.sequences.item_vectors import ItemVectors
from recsys.training import warm_start
from recsys.training.tower_training import TowerTraining
from recsys.training.warm_start import WarmStart
from tests.recsys.sequences.conftest import fields

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]


def write_day(folder: Path, items: list[Any]) -> Path:
    """Users who go around a circle of items; each item has its own tag."""
    folder.mkdir()
    lines = [
        " ".join(
            str(value)
            for value in (user, *np.roll(np.array(items, object), user)[:6])
        )
        for user in range(24)
    ]
    (folder / "log.txt").write_text("\n".join(lines))
    tags = ", ".join(f'"{item}": ["tag {item}"]' for item in items)
    (folder / "tags.json").write_text(f"{{{tags}}}")
    given: dict[str, Any] = {"file": "log.txt", "attributes": "tags.json"}
    progress = Progress(disable=True)
    sequences(folder, 0, progress, length=4, **given).write(folder / "data")
    return folder / "data"


def items_of(run: Path) -> tuple[ItemVectors, dict[Any, int]]:
    ranker = Run(run).load_two_tower()
    values = ranker.vocabularies["item"].values.tolist()
    numbers = {item: number for number, item in enumerate(values, 1)}
    items: Any = ranker.retrieval.item_tower
    return items, numbers


def tables_of(items: ItemVectors) -> list[Any]:
    """Those with a row for each id; row 0 is for unknown ones."""
    return [items.own, *items.tables.values()]


@pytest.mark.parametrize(
    "item", ["i{}".format, lambda place: 2**53 + 2 * place + 1]
)
def test_a_tower_goes_on_with_new_items(
    item: Callable[[int], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [item(place) for place in range(10)]
    first = write_day(tmp_path / "day1", items[:7])
    second = write_day(tmp_path / "day2", items[3:])
    recsys.train(fields(first, tmp_path / "first", tower_epochs=1))
    before, old = items_of(tmp_path / "first")
    started: list[TowerTraining] = []

    def stop(training: TowerTraining, *_: Any, **__: Any) -> None:
        started.append(training)
        raise KeyboardInterrupt

    new = {"data": str(second), "warm_start": str(tmp_path / "first")}
    with monkeypatch.context() as patch:
        patch.setattr(TowerTraining, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            recsys.train({**new, "out": str(tmp_path / "stopped")})
    after: Any = started[0].retrieval.item_tower
    tables = tables_of(before)
    assert len(tables) == 2
    for ours, theirs in zip(tables_of(after), tables, strict=True):
        grown, known = map(ops.convert_to_numpy, (ours, theirs))
        assert len(grown) == len(known) + 3
        np.testing.assert_array_equal(grown[: len(known)], known)
        assert (grown[len(known) :] == known[0]).all()
    metrics = recsys.train({**new, "out": str(tmp_path / "run")})
    assert metrics["test"]["retrieval"]["items"] == 10
    trained, numbers = items_of(tmp_path / "run")
    assert {name: numbers[name] for name in old} == old
    # Tags of the new items are known to the tower, and those of the old.
    tags = ops.convert_to_numpy(trained.known["attributes"])
    assert len({tuple(row) for row in tags[1:].tolist()}) == 10
    found = recsys.recommend(
        tmp_path / "run", "nobody", 10, features={"history": [items[7]]}
    )
    assert items[9] in found["item"].tolist()


def test_a_tower_of_another_width_is_refused(
    data: Path, tmp_path: Path
) -> None:
    recsys.train(fields(data, tmp_path / "first", tower_epochs=1))
    new = {"data": str(data), "warm_start": str(tmp_path / "first")}
    with pytest.raises(ValueError, match="`tower_width` must be that of"):
        recsys.train({**new, "out": str(tmp_path / "run"), "tower_width": 8})


@pytest.mark.parametrize(
    "item", ["i{}".format, lambda place: 2**53 + 2 * place + 1]
)
def test_a_tower_gets_further_items(
    item: Callable[[int], Any], tmp_path: Path
) -> None:
    items = [item(place) for place in range(7)]
    data = write_day(tmp_path / "day", items)
    recsys.train(fields(data, tmp_path / "first"))
    # One that is like the sixth, and one that is like nothing.
    tags = [[f"tag {items[5]}"], ["another"]]
    new = pd.DataFrame({"item": [item(50), item(51)], "attributes": tags})
    write_table(new, tmp_path / "new.parquet")
    run = tmp_path / "run"
    recsys.add_items(tmp_path / "first", tmp_path / "new.parquet", run)
    grown, numbers = items_of(run)
    assert numbers[item(50)] == 8
    own, of_tags = map(ops.convert_to_numpy, tables_of(grown))
    np.testing.assert_array_equal(own[8], own[0])
    vectors = ops.convert_to_numpy(grown.catalogue())
    known = ops.convert_to_numpy(grown.known["attributes"])[numbers[items[5]]]
    (tag,) = known[known >= 0]
    np.testing.assert_allclose(vectors[8], own[0] + of_tags[tag], rtol=1e-5)
    found = recsys.recommend(
        run, "nobody", 9, features={"history": [item(50), item(3)]}
    )
    assert sorted(found["item"]) == sorted(numbers)


def test_a_start_that_knows_the_validation_split_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = write_day(tmp_path / "day1", [f"i{place}" for place in range(7)])
    other = write_day(tmp_path / "day2", [*range(2**53, 2**53 + 7)])
    announced: list[str] = []
    monkeypatch.setattr(warm_start, "announce", announced.append)
    for refit, data, count in (
        (None, same, 1),
        (None, other, 0),
        (False, same, 0),
    ):
        announced.clear()
        start = tmp_path / f"start-{refit}"
        if not start.exists():
            recsys.train(fields(same, start, tower_epochs=1, refit=refit))
        new = fields(data, tmp_path / "new", warm_start=str(start))
        config = TrainConfig(**new)
        found = WarmStart.of(config, Run(config.out))
        assert found is not None
        found.warn_if_validation_is_known(ResolvedConfig.of(config))
        assert len([line for line in announced if str(start) in line]) == count
