"""Rows read as they are needed: the same results as of rows in memory."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from keras import tree

import recsys
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data import write_table
from recsys.data.split_dataset import SPLITS
from recsys.data.streaming.split_stream import SplitStream
from recsys.runs.run import Run
from tests.recsys.api.histories import read_history
from tests.recsys.api.interruptions import train_and_copy
from tests.recsys.conftest import NewRun

Settings = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


def write_parts(dataset: Dataset, folder: Path, suffix: str) -> Path:
    """Writes each split as two parts, with few rows in a row group."""
    for name in SPLITS:
        (folder / name).mkdir(parents=True)
        split = dataset.split(name)
        for index, part in enumerate((split[:30], split[30:])):
            file = folder / name / f"{index}{suffix}"
            if suffix == ".parquet":
                part.to_parquet(file, index=False, row_group_size=7)
            else:
                write_table(part, file)
    (folder / "dataset.json").write_text(dataset.schema.to_json())
    return folder


@pytest.fixture(scope="module")
def parts(tiny: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parts(tiny, tmp_path_factory.mktemp("parts"), ".parquet")


@pytest.fixture(scope="module")
def streamed(parts: Path, new_run: NewRun) -> Path:
    fields = {"task_weights": {"watch": 0.9}, "epochs": 2}  # Those of `run`.
    return new_run(data=str(parts), streaming=True, **fields)


def content(run: Path) -> dict[str, Any]:
    """All that a training has found out."""
    return {
        "history": read_history(run).to_dict("list"),
        "weights": Run(run).load_model().get_weights(),
        "metrics": json.loads((run / "metrics.json").read_text()),
    }


def assert_same_content(run: Path, other: Path) -> None:
    """The same, but for the last bit: PyTorch's depends on where arrays lie."""

    def assert_close(one: Any, two: Any) -> None:
        # What there is none of, like the loss of a task without labels, is NaN.
        one, two = np.asarray(one, float), np.asarray(two, float)
        np.testing.assert_allclose(one, two, rtol=1e-6, atol=1e-7)

    tree.map_structure(assert_close, content(run), content(other))


@pytest.mark.traced_once("jax")
def test_a_training_is_that_of_rows_in_memory(
    run: Path, streamed: Path
) -> None:
    assert_same_content(streamed, run)
    assert json.loads((streamed / "config.json").read_text())["streaming"]
    samples = [np.load(folder / "sample.npz") for folder in (run, streamed)]
    for name in samples[0]:
        np.testing.assert_array_equal(samples[0][name], samples[1][name])


@pytest.mark.once("torch")
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_so_it_is_of_text_files(
    run: Path, suffix: str, settings: Settings, tiny: Dataset, tmp_path: Path
) -> None:
    folder = write_parts(tiny, tmp_path / "data", suffix)
    fields = settings(
        tmp_path / "run",
        data=str(folder),
        task_weights={"watch": 0.9},
        epochs=2,
    )
    recsys.train({**fields, "streaming": True})
    assert_same_content(tmp_path / "run", run)


@pytest.mark.once("torch")
@pytest.mark.parametrize("by", [None, "user", "film", "age"])
def test_an_evaluation_is_that_of_rows_in_memory(
    by: str | None,
    run: Path,
    data: Path,
    parts: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = recsys.evaluate(run, data, by=by)
    # A batch has rows of several row groups, and the last one is smaller.
    monkeypatch.setattr("recsys.data.streaming.streamed_dataset.MOST_BYTES", 0)
    assert recsys.evaluate(run, parts, by=by) == held


@pytest.mark.once("torch")
def test_a_training_whose_pools_are_smaller_than_its_data(
    settings: Settings,
    parts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    units: list[int] = []
    read = SplitStream.read

    def counted(self: SplitStream, unit: Any) -> pd.DataFrame:
        units.append(unit.num_rows)
        return read(self, unit)

    monkeypatch.setattr(SplitStream, "read", counted)
    fields = settings(
        tmp_path / "run", data=str(parts), shuffle_buffer=20, epochs=3
    )
    recsys.train({**fields, "streaming": True})
    assert max(units) == 7
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    assert history["val_loss"].is_monotonic_decreasing


@pytest.mark.once("torch")
def test_streaming_of_what_has_no_rows_to_read(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(tmp_path / "run", data="synthetic", streaming=True)
    with pytest.raises(ValueError, match="`streaming` must be False unless"):
        recsys.train(fields)
    assert not (tmp_path / "run").exists()


@pytest.mark.once("torch")
def test_explain_takes_a_sample(
    run: Path,
    data: Path,
    parts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = shutil.copytree(run, tmp_path / "run")
    held = recsys.explain(run, data, repeats=1)
    monkeypatch.setattr("recsys.data.streaming.streamed_dataset.MOST_BYTES", 0)
    sampled = recsys.explain(run, parts, repeats=1)
    assert sampled["rows"] == held["rows"] == 40
    monkeypatch.setattr("recsys.api.explain.MOST_ROWS", 10)
    assert recsys.explain(run, parts, repeats=1)["rows"] == 10


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("streaming", "changes"),
    [
        (False, {"gate": "dselect-k", "gate_options": {"static": True}}),
        (
            True,
            {
                "gate": "comet",
                "weighting": "dwa",
                "table_optimizer": "lazy-adam",
            },
        ),
    ],
)
def test_a_training_is_resumed_in_the_middle_of_an_epoch(
    streaming: bool,
    changes: dict[str, Any],
    settings: Settings,
    parts: Path,
    tmp_path: Path,
) -> None:
    fields = settings(
        tmp_path / "whole",
        data=str(parts),
        streaming=streaming,
        shuffle_buffer=40,
        expert_dropout=0.5,
        epochs=2,
        checkpoint_steps=2,
        **changes,
    )
    halves = {**fields, "out": str(tmp_path / "halves")}
    train_and_copy(fields, {(1, 3): tmp_path / "halves"})
    saved = tmp_path / "halves" / "checkpoint" / "progress.json"
    assert json.loads(saved.read_text())["step"] == 2
    recsys.train(halves, resume=True)
    assert_same_content(tmp_path / "halves", tmp_path / "whole")


@pytest.mark.once("torch")
@pytest.mark.parametrize("texts", [False, True], ids=["ints", "texts"])
def test_lists_grow_longer_in_a_training_that_goes_on(
    texts: bool, settings: Settings, tmp_path: Path
) -> None:
    """As those of some units of the second day are."""
    for day, longest in enumerate((2, 7)):
        lengths = np.where(np.arange(60) < 40, 2, longest)
        numbers = [2**53 + np.arange(length) % 9 for length in lengths]
        rows = pd.DataFrame(
            {
                "tags": [
                    [f"{n}" if texts else n for n in ns] for ns in numbers
                ],
                "watch": np.arange(60) % 2,
            }
        )
        schema = Schema("lists", {"tags": "ids"}, {"watch": "binary"})
        dataset = Dataset(schema, dict.fromkeys(SPLITS, rows))
        write_parts(dataset, tmp_path / f"day-{day}", ".parquet")
    fields = {"streaming": True, "shuffle_buffer": 20, "epochs": 1}
    first, second = (
        settings(tmp_path / f"run-{day}", data=str(tmp_path / f"day-{day}"))
        for day in (0, 1)
    )
    recsys.train(first | fields)
    fields |= {"data": second["data"], "out": second["out"]}
    recsys.train({**fields, "warm_start": first["out"]})
    metrics = recsys.evaluate(second["out"], second["data"])
    assert np.isfinite(metrics["loss"])


@pytest.mark.once("torch")
def test_steps_of_a_search_are_not_resumed(
    settings: Settings, tmp_path: Path
) -> None:
    fields = settings(tmp_path / "run", gate="comet+", checkpoint_steps=2)
    with pytest.raises(ValueError, match="`checkpoint_steps` must be left out"):
        recsys.train(fields)
    assert not (tmp_path / "run").exists()
