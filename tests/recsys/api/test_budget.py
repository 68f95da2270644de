"""A run with a budget, from the training to a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy
from typer.testing import CliRunner

import recsys
from recsys import Dataset
from recsys.cli import app
from recsys.models.budgets import own_budget
from recsys.serving.formats import FORMATS
from tests.made_once import made_once
from tests.recsys.serving.client import Client

pytestmark = pytest.mark.slow

on_torch = pytest.mark.once("torch")
exported = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow",
    reason="models are exported under TensorFlow",
)


@pytest.fixture(scope="session")
def budget_run(
    settings: Callable[..., dict[str, Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a finished run; not to be changed."""
    return made_once(
        tmp_path_factory,
        "budget_run",
        lambda folder: recsys.train(settings(folder, gate="budget", k=2)),
    )


def test_evaluate_and_predict_have_the_budget(
    budget_run: Path, data: Path, tmp_path: Path
) -> None:
    experts = {}
    for budget in (None, 1, 3, 4):
        metrics = recsys.evaluate(budget_run, data, budget=budget)
        experts[budget] = metrics["experts_per_example"]
    assert (experts[1], experts[4]) == (1, 4)
    assert experts[None] == pytest.approx(2, abs=0.4)
    assert experts[3] == pytest.approx(3, abs=0.4)
    model = recsys.load_model(budget_run)
    rows = recsys.Dataset.read(data).split("test")
    for budget in (None, 1):
        out = tmp_path / f"{budget}.parquet"
        recsys.predict(budget_run, data / "test.parquet", out, budget=budget)
        expected = model(model.encode(rows), budget=budget)
        np.testing.assert_allclose(
            pd.read_parquet(out)["watch"],
            to_numpy(expected["watch"])[:, 0],
            rtol=1e-5,
        )


@on_torch
def test_the_command_line_has_it(budget_run: Path, data: Path) -> None:
    words = ["--run", str(budget_run), "--data", str(data), "--budget", "1"]
    result = CliRunner().invoke(app, ["evaluate", *words])
    assert result.exit_code == 0, result.output
    assert "Experts/example" in result.output


@on_torch
@pytest.mark.parametrize(
    ("budget", "message"),
    [(0.5, "between 1 and 4"), (5, "number of experts. Received: budget=5")],
)
def test_refuses_budgets_out_of_range(
    budget: float, message: str, budget_run: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        recsys.evaluate(budget_run, data, budget=budget)
    with pytest.raises(ValueError, match=message):
        recsys.predict(
            budget_run, data / "test.parquet", tmp_path / "o.csv", budget
        )


@on_torch
def test_refuses_a_budget_of_another_gate(run: Path, data: Path) -> None:
    with pytest.raises(ValueError, match="`budget` must be left out: only a"):
        recsys.evaluate(run, data, budget=2)


@on_torch
@pytest.mark.parametrize(
    ("changes", "budget"),
    [
        ({"architecture": "moe"}, 2.0),
        ({"architecture": "cgc"}, None),
        ({"gate": "budget+", "search_epochs": 1}, None),
        ({"gate_options": {"mass": 0.9}}, None),
        ({"gate_options": {"inner": "top-k"}}, 2.0),
    ],
)
def test_which_models_take_one(
    changes: dict[str, Any],
    budget: float | None,
    settings: Callable[..., dict[str, Any]],
    data: Path,
    tmp_path: Path,
) -> None:
    fields = {"gate": "budget", "k": 2, "epochs": 1, **changes}
    recsys.train(settings(tmp_path / "run", **fields))
    assert own_budget(recsys.load_model(tmp_path / "run")) == budget
    if budget is not None:
        metrics = recsys.evaluate(tmp_path / "run", data, budget=1)
        assert metrics["experts_per_example"] == 1


@exported
@pytest.mark.parametrize("format", FORMATS)
def test_a_server_takes_a_budget_by_request_and_by_row(
    format: str, budget_run: Path, tiny: Dataset, tmp_path: Path
) -> None:
    recsys.export(budget_run, tmp_path, format=format, expert_weights=True)
    client = Client.of(tmp_path, name="m")
    model = recsys.load_model(budget_run)
    rows = tiny.split("test").iloc[:6]
    columns = [name for name in model.features if name in ("user", "film")]
    given = rows[columns].astype(object)
    instances = given.to_dict("records")
    frame = rows.copy()
    for name in set(model.features) - set(columns):
        frame[name] = model.features[name].check(
            pd.Series([None] * 6, frame.index, dtype=object), name
        )
    encoded = model.encode(frame)

    def expected(budget: Any) -> np.ndarray:
        return to_numpy(model(encoded, budget=budget)["watch"])[:, 0]

    def served(content: dict[str, Any]) -> tuple[np.ndarray, list[int]]:
        answer = client.predict(content).json()["predictions"]
        experts = [np.count_nonzero(row["watch/experts"]) for row in answer]
        return np.array([row["watch"] for row in answer]), experts

    values, _ = served({"instances": instances})
    np.testing.assert_allclose(values, expected(None), atol=1e-5)
    for budget in (1, 3, 4):
        values, experts = served({"instances": instances, "budget": budget})
        np.testing.assert_allclose(values, expected(budget), atol=1e-5)
        if budget in (1, 4):
            assert experts == [budget] * 6
    budgets = [1, 4, None, 4, 1, 2]
    mixed = [
        {**row, "budget": budget}
        for row, budget in zip(instances, budgets, strict=True)
    ]
    values, experts = served({"instances": mixed})
    filled = np.array([b or 2 for b in budgets], "float32")
    np.testing.assert_allclose(values, expected(filled), atol=1e-5)
    assert [experts[i] for i in (0, 1, 3, 4)] == [1, 4, 4, 1]
    refused = client.predict({"instances": mixed, "budget": 1})
    assert refused.status_code == 400
    assert "either one of the request or of its rows" in refused.text
    refused = client.predict({"instances": instances, "budget": "few"})
    assert "budget: expected a finite number" in refused.text
    properties = str(client.get("/openapi.json").json())
    assert "'budget': {'type'" in properties
