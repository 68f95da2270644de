"""Data that name a scenario, from their files to metrics and exports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.cli import run as command_line
from recsys.data import DataError
from recsys.data import write_table
from recsys.metrics import ScoredRows
from recsys.metrics import auc
from recsys.runs.run import Run
from tests.recsys.api.interruptions import train_and_copy

Settings = Callable[..., dict[str, Any]]

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

COUNTRIES = ["fr", "de", "7", "007"]
OPTIONS = {
    "train": "log.csv",
    "ids": ["country", "user", "item"],
    "binary": "click",
    "regression": "price",
    "weight": "importance",
    "scenario": "country",
}


def rows(count: int, countries: list[str], seed: int = 0) -> pd.DataFrame:
    """What is clicked in one country is not in the next."""
    rng = np.random.default_rng(seed)
    country, user, item = rng.integers(0, [len(countries), 9, 8], (count, 3)).T
    return pd.DataFrame(
        {
            "country": np.array(countries)[country],
            "user": user,
            "item": item,
            "click": (item + country) % 2,
            "price": item + 10.0 * country,
            "importance": rng.uniform(0.5, 2, count),
        }
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    write_table(rows(800, COUNTRIES), folder / "log.csv")
    recsys.prepare("table", folder, folder / "data", **OPTIONS)
    return folder / "data"


@pytest.fixture(scope="module")
def options(shop: Path, settings: Settings) -> dict[str, Any]:
    fields = {"learning_rate": 0.03, "expert_dropout": 0.0, "epochs": 6}
    return settings(Path(), data=str(shop), batch_size=64, **fields)


@pytest.fixture(scope="module")
def trained(
    options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a finished run of star; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "star"
    recsys.train({**options, "out": str(folder), "scenario_model": "star"})
    return folder


def metrics_of(run: Path) -> Any:
    return json.loads((run / "metrics.json").read_text())


def test_prepare_keeps_the_scenario(shop: Path) -> None:
    schema = json.loads((shop / "dataset.json").read_text())
    assert schema["scenario"] == "country"
    assert recsys.load(shop).schema.scenario == "country"


def test_metrics_of_each_scenario_are_of_its_rows(
    trained: Path, shop: Path
) -> None:
    test = recsys.load(shop).split("test")
    scores = recsys.load_model(trained).predict(test)
    parts = metrics_of(trained)["test"]["scenarios"]["country"]
    assert set(parts) == {repr(country) for country in COUNTRIES}
    for country in COUNTRIES:
        chosen = (test["country"] == country).to_numpy()
        part = parts[repr(country)]
        assert part["rows"] == chosen.sum()
        labels = test["click"].to_numpy()[chosen]
        own, weights = (
            values.to_numpy()[chosen]
            for values in (scores["click"], test["importance"])
        )
        expected = auc(ScoredRows.of(labels, own, weights=weights))
        assert part["tasks"]["click"]["auc"] == pytest.approx(expected)
        assert part["tasks"]["click"]["auc"] > 0.8
        errors = (scores["price"] - test["price"]).to_numpy()[chosen] ** 2
        assert part["tasks"]["price"]["mse"] == pytest.approx(
            np.average(errors, weights=weights), rel=1e-4
        )


def test_an_evaluation_has_them_also_of_streamed_rows(
    trained: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = metrics_of(trained)["test"]["scenarios"]
    held = recsys.evaluate(trained, shop)["scenarios"]
    monkeypatch.setattr("recsys.data.streaming.streamed_dataset.MOST_BYTES", 0)
    streamed = recsys.evaluate(trained, shop, by="country")
    for found in (held, streamed["scenarios"], streamed["by"]):
        assert found["country"].keys() == recorded["country"].keys()
        for country, part in recorded["country"].items():
            assert found["country"][country]["loss"] == pytest.approx(
                part["loss"], rel=1e-5
            )
            assert "scenarios" not in found["country"][country]


def test_unknown_scenarios_are_told_apart(
    trained: Path, tmp_path: Path
) -> None:
    data = recsys.load(Run(trained).read_config().data)
    rows = data.split("test").assign(country="atlantis")
    splits = {**data.splits, "test": rows}
    recsys.Dataset(data.schema, splits).write(tmp_path / "data")
    found = recsys.evaluate(trained, tmp_path / "data")["scenarios"]
    assert list(found["country"]) == ["unknown"]


def test_commands_print_them(
    trained: Path,
    shop: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    words = ["evaluate", "--run", str(trained), "--data", str(shop)]
    assert command_line(words) == 0
    text = capsys.readouterr().out
    assert all(f"country: {country!r}" in text for country in COUNTRIES)
    assert "Scenarios" in recsys.report([trained], tmp_path / "report")
    report = (tmp_path / "report" / "report.md").read_text()
    assert "| '007' | " in report
    assert "| scenario | rows | test loss x 100 | click auc |" in report


@pytest.mark.parametrize("scenario_model", ["pepnet", "star"])
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    scenario_model: str,
    options: dict[str, Any],
    tmp_path: Path,
) -> None:
    fields = {**options, "scenario_model": scenario_model, "epochs": 2}
    whole, parts = (
        {**fields, "out": str(tmp_path / name)} for name in ("whole", "parts")
    )
    expected = train_and_copy(whole, {(1, 2): tmp_path / "parts"})
    metrics = recsys.train(parts, resume=True)
    loss = expected["test"]["loss"]
    assert metrics["test"]["loss"] == pytest.approx(loss, rel=1e-5)


def test_a_warm_start_takes_a_new_scenario(
    trained: Path, tmp_path: Path
) -> None:
    write_table(rows(300, ["fr", "es"], seed=1), tmp_path / "log.csv")
    recsys.prepare("table", tmp_path, tmp_path / "data", **OPTIONS)
    fields = {
        "warm_start": str(trained),
        "data": str(tmp_path / "data"),
        "epochs": 2,
    }
    found = recsys.train({**fields, "out": str(tmp_path / "run")})
    assert set(found["test"]["scenarios"]["country"]) == {"'fr'", "'es'"}
    grown = Run(tmp_path / "run").load_ranker()
    assert grown.scenario_model is not None
    kernels = grown.heads["click"].layers[0].kernels
    assert kernels.shape[0] == 5
    assert not np.allclose(kernels[4].detach().numpy(), 1)
    fields["scenario_model"] = "pepnet"
    with pytest.raises(ValueError, match="`scenario_model` must be that of"):
        recsys.train({**fields, "out": str(tmp_path / "other")})


def test_baselines_have_metrics_of_scenarios(
    shop: Path, tmp_path: Path
) -> None:
    found = recsys.baseline(
        {"model": "bias", "data": str(shop), "out": str(tmp_path / "bias")}
    )
    assert set(found["test"]["scenarios"]["country"]) == {
        repr(country) for country in COUNTRIES
    }


def test_a_scenario_that_is_no_feature(tmp_path: Path) -> None:
    write_table(rows(40, COUNTRIES), tmp_path / "log.csv")
    message = r"'scenario': expected an id feature, of \['country', 'user', "
    with pytest.raises(DataError, match=message):
        recsys.prepare(
            "table",
            tmp_path,
            tmp_path / "data",
            **{**OPTIONS, "scenario": "contry"},
        )
