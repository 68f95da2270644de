"""Retrieval trained without the tasks, whose predictions would say nothing."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import ops

import recsys
from recsys.api.export import export
from recsys.api.info import info
from recsys.api.off_policy import off_policy
from recsys.api.promote import promote
from recsys.cli import run as command
from recsys.data import Dataset
from recsys.data.formats.table import write_table
from recsys.errors import RunError
from recsys.models.scorer import Scorer
from recsys.reporting.planned_run import PlannedRun
from recsys.reporting.statistics import paired_differences
from recsys.runs.run import Run
from tests.made_once import made_once
from tests.recsys.retrieval.id_kinds import IdKinds
from tests.recsys.retrieval.id_kinds import of_texts

pytestmark = pytest.mark.slow

Fields = Callable[..., dict[str, Any]]
MESSAGE = "expected trained tasks. Received: retrieval trained without them"


@pytest.fixture(scope="session")
def towers(
    fields: Fields,
    ids: IdKinds,
    train_quickly: Callable[[dict[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run of two towers without the tasks; not to be changed."""
    given = {"ranker": False, "select": None, "epochs": 1}
    return made_once(
        tmp_path_factory,
        f"towers-{ids.name}",
        lambda folder: train_quickly(fields(folder, **given)),
    )


@pytest.fixture(scope="session")
def liked(
    films: Dataset, ids: IdKinds, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The films that were watched, all with the same labels."""

    def write(folder: Path) -> None:
        splits = {
            name: rows[rows["watch"] == 1]
            .assign(rating=4.0)
            .reset_index(drop=True)
            for name, rows in films.splits.items()
        }
        replace(films, splits=splits).write(folder)

    return made_once(tmp_path_factory, f"liked-{ids.name}", write)


def predict(run: Path, data: Path, out: Path) -> object:
    return recsys.predict(run, data / "test.parquet", out / "out.parquet")


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    "use",
    [
        predict,
        lambda run, data, out: recsys.explain(run, data),
        lambda run, data, out: recsys.calibrate(run, data),
        lambda run, data, out: recsys.compress(run, data, out / "c", int8=True),
        lambda run, data, out: off_policy(run, data, "watch"),
        lambda run, data, out: recsys.load_model(run).predict(
            pd.read_parquet(data / "test.parquet")
        ),
        lambda run, data, out: Scorer(recsys.load_model(run)),
    ],
    ids=[
        *("predict", "explain", "calibrate", "compress", "off-policy"),
        *("load_model", "scorer"),
    ],
)
def test_tasks_that_were_not_trained_are_not_predicted(
    use: Callable[[Path, Path, Path], object],
    towers: Path,
    films_folder: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(RunError, match=MESSAGE):
        use(towers, films_folder, tmp_path)
    assert not [*tmp_path.iterdir()]
    assert not (towers / "importance.json").exists()


@pytest.mark.once("torch")
@of_texts
def test_the_command_says_what_to_do(
    towers: Path,
    films_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = films_folder / "test.parquet"
    words = ["--run", str(towers), "--input", str(file)]
    assert command(["predict", *words, "--out", str(tmp_path / "o.csv")]) == 1
    (line,) = capsys.readouterr().err.splitlines()[-1:]
    assert line == (
        f"error: {towers}: {MESSAGE} (ranker=False). `recsys train --ranker` "
        "trains both; without them, there are `recsys recommend` and `recsys "
        "export --two-stage`"
    )


@pytest.mark.once("tensorflow")
@pytest.mark.parametrize("format", ["tf_saved_model", "onnx"])
def test_tasks_that_were_not_trained_are_not_exported(
    towers: Path, format: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=MESSAGE):
        export(towers, tmp_path / "served", format)
    assert not (tmp_path / "served" / "1").exists()


@pytest.mark.once("tensorflow")
@of_texts
def test_a_model_without_trained_tasks_is_not_promoted(
    towers: Path, films_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=MESSAGE):
        promote(towers, towers, films_folder, tmp_path / "out")


@pytest.mark.once("torch")
def test_what_is_measured_is_of_the_constants(
    towers: Path, films_folder: Path
) -> None:
    run = Run(towers)
    assert run.read_config().select == "parts"
    assert not run.history.exists()
    assert not run.plots.exists()
    measured = recsys.evaluate(towers, films_folder)
    for values in measured["tasks"].values():
        constant = values["constant"]
        assert {name: values[name] for name in constant} == constant
    assert measured["experts_per_example"] is None
    assert measured["retrieval"] == run.read_metrics()["test"]["retrieval"]


@pytest.mark.once("torch")
@of_texts
def test_no_page_speaks_of_the_tasks(towers: Path, tmp_path: Path) -> None:
    found = info(towers)
    assert found["facts"]["model"] == (
        "retrieval by two towers, without the tasks"
    )
    assert all(name.startswith("retrieval") for name in found["scores"])
    says = "The tasks were not trained: recsys train --ranker does it."
    assert found["verdicts"][0] == says
    titles = recsys.report([towers], out=tmp_path / "page")
    assert titles == ["Summary", "Results"]


@pytest.mark.once("torch")
@of_texts
def test_a_comparison_is_of_the_retrieval(towers: Path) -> None:
    read = Run(towers).read_recorded()
    entry = PlannedRun("", "towers", replace(read, out=str(towers))).result()
    assert entry is not None
    assert math.isnan(entry.pop("loss"))
    assert {name.split()[0] for name in entry} == {
        *("setting", "model", "seed", "retrieval")
    }
    losses = pd.DataFrame({"seed": [0], "loss": [math.nan]})
    assert paired_differences(losses, losses).empty


@pytest.mark.once("torch")
@of_texts
def test_the_tasks_can_be_trained_later(
    towers: Path, films_folder: Path, ids: IdKinds, tmp_path: Path
) -> None:
    """Neither more items nor a warm start make untrained tasks trained."""
    new = pd.DataFrame({"item": ids.items([98]), "genres": [["g0"]]})
    write_table(new, tmp_path / "new.parquet")
    more, again = tmp_path / "more", tmp_path / "again"
    recsys.add_items(towers, tmp_path / "new.parquet", more)
    given = {"data": str(films_folder), "warm_start": str(towers)}
    recsys.train({**given, "out": str(again), "epochs": 1})
    for run in (more, again):
        with pytest.raises(RunError, match=MESSAGE):
            predict(run, films_folder, tmp_path)
    both = tmp_path / "both"
    recsys.train({**given, "out": str(both), "ranker": True})
    predict(both, films_folder, tmp_path)
    metrics = Run(both).read_metrics()["test"]
    assert metrics["loss"] < metrics["constant"]["loss"]


@pytest.mark.once("torch")
@of_texts
def test_labels_that_do_not_differ_train_no_tasks(
    liked: Path, fields: Fields, tmp_path: Path
) -> None:
    """Whatever the towers see: a history's table learns with them."""
    run = Run(tmp_path / "run")
    given = {"data": str(liked), "select": None, "epochs": 2}
    recsys.train(fields(run.folder, **given))
    config = run.read_config()
    assert (config.ranker, config.select) == (False, "parts")
    assert not run.history.exists()
    metrics = run.read_metrics()
    assert metrics["test"]["loss"] == metrics["test"]["constant"]["loss"]
    assert metrics["selected_towers"]["by"] == "val_ndcg@5"
    with pytest.raises(RunError, match=MESSAGE):
        predict(run.folder, liked, tmp_path)
    still = Run(tmp_path / "still")
    recsys.train(fields(still.folder, **given, learning_rate=1e-9))
    tables = [
        ops.convert_to_numpy(
            each.load_two_tower().embeddings["item"].embeddings
        )
        for each in (still, run)
    ]
    assert not np.array_equal(*tables)


@pytest.mark.once("torch")
@of_texts
@pytest.mark.parametrize(
    "given",
    [{"ranker": True, "select": None}, {"select": "retrieval"}],
    ids=["ranker", "select"],
)
def test_tasks_are_trained_on_equal_labels_where_that_is_said(
    given: dict[str, Any],
    liked: Path,
    fields: Fields,
    tmp_path: Path,
) -> None:
    run = Run(tmp_path / "run")
    recsys.train(fields(run.folder, data=str(liked), epochs=1, **given))
    config = run.read_config()
    assert config.trains_tasks
    assert config.select == "retrieval"
    assert run.history.is_file()
    predict(run.folder, liked, tmp_path)


@pytest.mark.once("torch")
@of_texts
@pytest.mark.parametrize(
    ("given", "received"),
    [
        ({}, "ranker=None, and no task with labels that differ"),
        ({"ranker": False}, "ranker=False"),
    ],
    ids=["labels", "ranker"],
)
def test_a_sweep_needs_tasks_to_go_by(
    given: dict[str, Any], received: str, liked: Path, tmp_path: Path
) -> None:
    shared = {"data": str(liked), "out": str(tmp_path / "sweep")}
    space = {"learning_rate": {"min": 0.01, "max": 0.1}}
    message = (
        "`ranker` must be True where the losses of the tasks decide. "
        f"Received: {received}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        recsys.tune(shared | {"retrieval": True} | given, space=space)
    assert not (tmp_path / "sweep").exists()


@pytest.mark.once("torch")
def test_quickstart_names_the_export_that_there_is(
    ids: IdKinds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "user": [ids.user(n) for n in rng.integers(0, 20, 200)],
            "item": ids.items(rng.integers(0, 12, 200)),
            "click": 1,
        }
    )
    file, out = tmp_path / "log.parquet", tmp_path / "quick"
    write_table(rows, file)
    words = ["quickstart", str(file), "--out", str(out), "--epochs", "1"]
    assert command(words) == 0
    run = out / "run"
    assert f"recsys export --two-stage --run {run}" in capsys.readouterr().out
    assert json.loads((run / "config.json").read_text())["ranker"] is False
