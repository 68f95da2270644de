"""Calibrated runs, and all that reads them."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys import DataError
from recsys import Dataset
from recsys import RunError
from recsys import Schema
from recsys.cli import run as command
from recsys.runs.run import Run

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

LARGE = 2**53 + 1


def _rows(num_rows: int, seed: int) -> pd.DataFrame:
    """Clicks depend on the film; on the page called é they are twice as rare.

    Training rows have five times as many of them as others.
    """
    rng = np.random.default_rng(seed)
    film, page = rng.integers(0, 6, num_rows), rng.integers(0, 2, num_rows)
    chances = (film + 1) / 8 / (1 + page)
    click = rng.uniform(size=num_rows) < chances * (1.0 if seed == 0 else 0.2)
    user = LARGE + rng.integers(0, 9, num_rows)
    return pd.DataFrame(
        {
            "user": user,
            "item": np.char.add("f", film.astype(str)),
            "page": np.where(page, "é", "home"),
            "click": click * 1.0,
            "rating": rng.normal(size=num_rows),
        }
    )


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "clicks"
    schema = Schema(
        "clicks",
        {"user": "id", "item": "id", "page": "id"},
        {"click": "binary", "rating": "regression"},
    )
    rows = {"train": _rows(400, 0), "validation": _rows(900, 1)}
    Dataset(schema, {**rows, "test": _rows(900, 2)}).write(folder)
    return folder


@pytest.fixture(scope="module")
def trained(
    clicks: Path, settings: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    fields = settings(out, data=str(clicks), retrieval=True, epochs=3)
    recsys.train(recsys.TrainConfig.from_mapping(fields))
    return out


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_the_model_keeps_it_and_all_commands_apply_it(
    run: Path, clicks: Path
) -> None:
    before = recsys.evaluate(run, clicks)["tasks"]
    plain = recsys.load_ranker(run)
    report = recsys.calibrate(run, clicks, by="page")
    assert report == json.loads((run / "calibration.json").read_text())
    click = report["tasks"]["click"]
    assert click["values"] == 2
    assert click["before"]["ece"] == pytest.approx(before["click"]["ece"])
    assert click["before"]["ece"] > 0.1
    assert click["after"]["ece"] < 0.05
    after = recsys.evaluate(run, clicks)["tasks"]
    assert click["after"]["ece"] == pytest.approx(after["click"]["ece"])
    assert after["rating"] == before["rating"]
    kept = Run(run).read_metrics()["test"]["tasks"]
    assert kept["click"]["ece"] == click["after"]["ece"]

    ranker = recsys.load_ranker(run)
    rows = recsys.load(clicks).split("test").head(40)
    calibrated, raw = ranker.predict(rows), plain.predict(rows)
    assert not np.allclose(calibrated["click"], raw["click"], atol=0.05)
    for page in ("é", "home"):  # Each page keeps its order.
        chosen = (rows["page"] == page).to_numpy()
        order = np.argsort(raw["click"][chosen], kind="stable")
        assert (np.diff(calibrated["click"][chosen].iloc[order]) > -1e-6).all()
    recommended = recsys.recommend(
        run, str(LARGE), 3, data=str(clicks), features={"page": "é"}
    )
    wanted = ranker.predict(
        pd.DataFrame({"user": [LARGE], "item": recommended["item"][:1]}).assign(
            page=recsys.load(clicks)
            .split("train")
            .query("user == @LARGE")["page"]
            .iloc[-1]
        )
    )
    assert recommended["click"][0] == pytest.approx(
        wanted["click"][0], abs=1e-5
    )


def test_a_second_calibration_replaces_the_first(
    run: Path, clicks: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--run", str(run), "--data", str(clicks)]
    assert command(["calibrate", *words, "--method", "platt"]) == 0
    shown = capfd.readouterr().out
    assert "ECE before" in shown
    first = json.loads((run / "calibration.json").read_text())
    report = recsys.calibrate(run, clicks, "beta")
    of_first, click = first["tasks"]["click"], report["tasks"]["click"]
    assert click["before"] == pytest.approx(of_first["before"])
    assert set(report["tasks"]) == {"click"}
    # What goes on from it is trained on probabilities of its own.
    out = run.parent / "more"
    words = ["--from", str(run), "--data", str(clicks), "--out", str(out)]
    assert command(["train", *words, "--epochs", "1"]) == 0
    assert recsys.load_model(out).calibrations == {}


def test_what_cannot_be_calibrated_is_named(
    run: Path, clicks: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="isotonic, platt, beta"):
        recsys.calibrate(run, clicks, "isotnic")
    with pytest.raises(DataError, match="did you mean 'page'"):
        recsys.calibrate(run, clicks, by="pgae")
    with pytest.raises(ValueError, match="min_rows"):
        recsys.calibrate(run, clicks, min_rows=0)
    dataset = recsys.load(clicks)
    rows = {name: dataset.split(name) for name in ("train", "validation")}
    rows["test"] = dataset.split("test")
    rows["validation"] = rows["validation"].assign(click=0.0)
    Dataset(dataset.schema, rows).write(tmp_path / "same")
    with pytest.raises(DataError, match="labels 0 and 1"):
        recsys.calibrate(run, tmp_path / "same")
    (run / "metrics.json").unlink()
    with pytest.raises(RunError, match="finished run"):
        recsys.calibrate(run, clicks)
