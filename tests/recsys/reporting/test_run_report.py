"""The report of a single run, and `recsys info`."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import Schema
from recsys import cli
from recsys import dataset_from_table
from recsys.errors import RunError
from recsys.measuring.calibration_bands import binned
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run

pytestmark = pytest.mark.once("torch")

LARGE = 2**60  # Neighbours are the same as floats.


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    draw = np.random.default_rng(0)
    item = draw.integers(0, 4, 1000)
    rows = pd.DataFrame(
        {
            "user": LARGE + draw.integers(0, 6, 1000),
            "item": [f"film <{i}>" for i in item],
            "noise": draw.normal(size=1000),
            "watch": (draw.random(1000) < 0.2 + 0.2 * item).astype(float),
            "stars": item + draw.normal(size=1000),
        }
    )
    schema = Schema(
        "films",
        {"user": "id", "item": "id", "noise": "number"},
        {"watch": "binary", "stars": "regression"},
    )
    dataset_from_table(rows, schema).write(folder / "data")
    recsys.train(
        {
            "data": str(folder / "data"),
            "out": str(folder / "my run"),
            "gate": "comet",
            "num_experts": 4,
            "k": 2,
            "embedding_dim": 4,
            "expert_units": [8],
            "head_units": [6],
            "learning_rate": 0.02,
            "epochs": 3,
            "batch_size": 64,
        }
    )
    return folder / "my run"


@pytest.mark.draws
def test_a_run_is_reported_in_its_folder(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["report", str(run)]) == 0
    assert str(run / "report" / "index.html") in capsys.readouterr().out
    page = (run / "report" / "index.html").read_text()
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles[:6] == [
        *("Summary", "Learning curves", "Calibration"),
        *("Importance of features", "Slices", "Routing over time"),
    ]
    assert "Diagnosis" in titles
    assert "Embeddings" not in titles
    assert page.count('<a href="#section-') == len(titles)
    assert "better than the constant" in page
    assert "film &lt;3&gt;" in page
    assert "expert 3" in page  # Its panel, a text in the figure.
    markdown = (run / "report" / "report.md").read_text()
    assert re.search(r"relies most on 'item'", markdown)
    assert "](figures/routing_over_time.png)" in markdown


def test_a_report_without_the_data_replaces_one_with_them(run: Path) -> None:
    data = run.parent / "data"
    moved = data.rename(run.parent / "elsewhere")
    try:
        recsys.report([run])
    finally:
        moved.rename(data)
    text = (run / "report" / "report.md").read_text()
    assert "Not measured, as the data are no longer in" in text


def test_info_needs_no_model(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = recsys.info(run)
    test = read_trained([run])[0].metrics["test"]
    assert found["scores"]["loss"]["test"] == f"{test['loss']:.4f}"
    constant = test["tasks"]["watch"]["constant"]["loss"]
    assert found["scores"]["watch loss"]["constant"] == f"{constant:.4f}"
    assert cli.run(["info", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "gate comet, 4 experts, k 2" in printed
    assert "Simple models were not fitted" in printed


def test_what_is_no_run_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RunError, match="expected a run folder"):
        recsys.info(tmp_path / "none")
    write_run(tmp_path / "half", "comet", 0.4)
    (tmp_path / "half" / "metrics.json").unlink()
    with pytest.raises(RunError, match="--resume continues it"):
        recsys.info(tmp_path / "half")
    for name, loss in (("a", 0.4), ("b", 0.5)):
        write_run(tmp_path / "runs" / name, "comet", loss)
    assert cli.run(["report", str(tmp_path / "runs")]) == 2
    assert "`out` must be given" in capsys.readouterr().err


def test_runs_of_other_options_have_the_names_of_their_folders(
    tmp_path: Path,
) -> None:
    write_run(tmp_path / "slow", "comet", 0.4, seed=0, learning_rate=0.1)
    write_run(tmp_path / "fast", "comet", 0.5, seed=1)
    write_run(tmp_path / "one", "top-k", 0.5, seed=0)
    write_run(tmp_path / "two", "top-k", 0.6, seed=1)
    names = {run.run.folder.name: run.model for run in read_trained([tmp_path])}
    assert names == {
        **{"slow": "slow", "fast": "fast"},
        **{"one": "top-k", "two": "top-k"},
    }


def test_calibration_by_hand() -> None:
    predicted = np.repeat([0.1, 0.9], 50)
    labels = np.tile([0.0, 0.0, 0.0, 0.0, 1.0], 20)
    bins = binned(labels, predicted, binary=True)
    assert [b.rows for b in bins] == [50, 50]  # Equals stay together.
    assert all(b.observed == pytest.approx(0.2) for b in bins)
    # Clopper and Pearson for 10 of 50, from tables.
    assert bins[0].low == pytest.approx(0.1003, abs=1e-4)
    assert bins[0].high == pytest.approx(0.3372, abs=1e-4)
    few = binned(np.array([0, 0, 0, 0, 1] * 2), np.zeros(10), binary=True)
    assert few[0].low == pytest.approx(0.0252, abs=1e-4)
    assert few[0].high == pytest.approx(0.5561, abs=1e-4)
    pairs = np.repeat(np.arange(10.0), 2)
    means = binned(np.array([1.0, 3.0] * 10), pairs, binary=False)
    assert [b.rows for b in means] == [2] * 10
    assert means[0].observed == 2
    assert means[0].high - 2 == pytest.approx(1.96 * 2**0.5 / 2**0.5)
