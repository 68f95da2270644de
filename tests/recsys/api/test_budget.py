"""A run with a budget, from the training to a server."""

from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pandas as pd
import pytest
from keras.ops import convert_to_numpy as to_numpy
from playwright.sync_api import Page
from typer.testing import CliRunner

import recsys
from recsys import Dataset
from recsys.cli import app
from recsys.models.budgets import own_budget
from recsys.runs.run import Run
from recsys.serving.formats import FORMATS
from tests.made_once import made_once
from tests.recsys.serving.browser import READY
from tests.recsys.serving.browser import browsed
from tests.recsys.serving.browser import check_looks
from tests.recsys.serving.browser import fill
from tests.recsys.serving.browser import needs_chromium
from tests.recsys.serving.browser import rows_of
from tests.recsys.serving.browser import wait_for_answer
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
    train_quickly: Callable[[Mapping[str, Any]], object],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The folder of a finished run; not to be changed."""
    return made_once(
        tmp_path_factory,
        "budget_run",
        lambda folder: train_quickly(settings(folder, gate="budget", k=2)),
    )


@pytest.fixture(scope="module")
def small_run(
    budget_run: Path, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The same with fewer experts, in integers; not to be changed."""
    folder = tmp_path_factory.mktemp("budget") / "small"
    recsys.compress(budget_run, data, folder, experts=3, int8=True)
    return folder


@pytest.mark.once("torch")
@pytest.mark.parametrize(
    ("budget", "experts"),
    [
        (None, pytest.approx(2, abs=0.4)),
        (1, 1),
        (3, pytest.approx(3, abs=0.4)),
        (4, 4),
    ],
    ids=["own", "1", "3", "4"],
)
def test_evaluate_has_the_budget(
    budget: int | None, experts: Any, budget_run: Path, data: Path
) -> None:
    metrics = recsys.evaluate(budget_run, data, budget=budget)
    assert metrics["experts_per_example"] == experts


@pytest.mark.once("torch")
@pytest.mark.parametrize("budget", [None, 1])
def test_predict_has_the_budget(
    budget: int | None, budget_run: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "predicted.parquet"
    recsys.predict(budget_run, data / "test.parquet", out, budget=budget)
    model = recsys.load_model(budget_run)
    rows = recsys.Dataset.read(data).split("test")
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
        ({"architecture": "cgc"}, 2.0),
        ({"architecture": "ple"}, 2.0),
        ({"architecture": "home"}, 2.0),
        ({"architecture": "adatt"}, 2.0),
        ({"architecture": "stem"}, 2.0),
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


def export_once(
    factory: pytest.TempPathFactory, run: Path, format: str
) -> Path:
    """The folder of the versions of a model, with the weights of experts."""
    return made_once(
        factory,
        f"budget-{format}",
        lambda folder: recsys.export(
            run, folder, format=format, expert_weights=True
        ),
    )


@exported
@pytest.mark.parametrize("format", FORMATS)
def test_a_server_takes_a_budget_by_request_and_by_row(
    format: str,
    budget_run: Path,
    tiny: Dataset,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = export_once(tmp_path_factory, budget_run, format)
    client = Client.of(folder, name="m")
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
    for budget in (0, -1, 99):
        refused = client.predict({"instances": instances, "budget": budget})
        assert refused.status_code == 400
        assert "budget: expected a number from 1 to 4" in refused.text
    refused = client.predict({"instances": instances, "budget": "few"})
    assert "budget: expected a finite number" in refused.text
    properties = str(client.get("/openapi.json").json())
    assert "'budget': {'type'" in properties


@on_torch
def test_a_run_with_fewer_experts_has_budgets_up_to_these(
    settings: Callable[..., dict[str, Any]], data: Path, tmp_path: Path
) -> None:
    options = {"train_budgets": "1,4"}
    fields = {"gate": "budget", "k": 2, "epochs": 1, "gate_options": options}
    recsys.train(settings(tmp_path / "run", **fields))
    small = tmp_path / "small"
    metrics = recsys.compress(tmp_path / "run", data, small, experts=3)
    for split in ("validation", "test"):
        assert metrics[split]["experts_per_example"] == pytest.approx(
            2, abs=0.2
        )
    for budget in (1, 3):
        measured = recsys.evaluate(small, data, budget=budget)
        assert measured["experts_per_example"] == budget
    with pytest.raises(ValueError, match="between 1 and 3, the number"):
        recsys.evaluate(small, data, budget=4)
    assert Run(small).read_config().gate_options["train_budgets"] == [1, 3]
    # A training goes on from it, with the thresholds that it has.
    more = settings(tmp_path / "more", warm_start=str(small), epochs=1)
    names = ("data", "out", "warm_start", "epochs")
    recsys.train({name: more[name] for name in names})
    measured = recsys.evaluate(tmp_path / "more", data, budget=1)
    assert measured["experts_per_example"] == 1


@exported
@pytest.mark.parametrize("format", FORMATS)
def test_an_export_with_fewer_experts_takes_a_budget(
    format: str, small_run: Path, tmp_path: Path
) -> None:
    assert own_budget(recsys.load_model(small_run)) == 2
    recsys.export(small_run, tmp_path / "m", format=format, expert_weights=True)
    client = Client.of(tmp_path / "m", name="m")
    for budget in (1, 3):
        content = {"instances": [{"user": 1}] * 4, "budget": budget}
        for row in client.predict(content).json()["predictions"]:
            assert np.count_nonzero(row["watch/experts"]) == budget


@exported
def test_an_export_of_levels_takes_a_budget(
    settings: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    fields = {"gate": "budget", "k": 2, "epochs": 1, "architecture": "home"}
    recsys.train(settings(tmp_path / "run", **fields))
    recsys.export(
        tmp_path / "run", tmp_path / "m", format="onnx", expert_weights=True
    )
    client = Client.of(tmp_path / "m", name="m")
    content = {"instances": [{"user": 1}] * 4, "budget": 1}
    for row in client.predict(content).json()["predictions"]:
        # One expert on each of two levels.
        assert np.count_nonzero(row["watch/experts"]) == 2


@exported
@needs_chromium
def test_the_page_has_bands_experts_and_a_slider(
    budget_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The other sides of the page are tested with stubs of models."""
    folder = export_once(tmp_path_factory, budget_run, "tf_saved_model")
    client = Client.of(folder, name="m")
    row = {"user": 1, "film": "é1", "age": 31.5}
    rows = [row, {**row, "budget": 4.0}]
    answers = client.predict({"instances": rows}).json()["predictions"]
    described = client.get("/v1/models/m/metadata").json()["metadata"]
    bands = described["calibration"]
    with browsed(client.app) as page:
        page.goto("/")
        page.wait_for_selector(READY)
        slider = page.get_by_role("slider", name="budget")
        assert slider.get_attribute("aria-valuetext") == "the model's own, 2"
        fill(page, **{name: str(value) for name, value in row.items()})
        page.keyboard.press("Enter")
        wait_for_answer(page, "1 prediction in")
        check_shown(page, answers[0], bands)
        slider.focus()
        page.keyboard.press("End")
        page.get_by_text("4.0 experts per row on average").wait_for()
        page.locator("#experts tbody tr").nth(3).wait_for()
        check_shown(page, answers[1], bands)
        changes = rows_of(page, "#changes")
        assert {change[0] for change in changes} == {*row}
        check_looks(page)


def check_shown(
    page: Page, answer: dict[str, Any], calibration: dict[str, Any]
) -> None:
    """Checks what a page shows for a row against what the API says."""
    ((_, *shown, _),) = rows_of(page, "#answer")
    for task, cell in zip(["rating", "watch"], shown, strict=False):
        prediction, band = cell.split("\n")
        assert float(prediction) == pytest.approx(answer[task], rel=1e-3)
        bins = calibration[task]["bins"]
        assert band in {
            "beyond the test rows",
            *(f"{_short(e['low'])} to {_short(e['high'])}" for e in bins),
        }
    weights = {
        int(expert): [float(cell.split("\u202f")[0]) / 100 for cell in cells]
        for expert, *cells in rows_of(page, "#experts")
    }
    for place, task in enumerate(["rating", "watch"]):
        for expert, weight in enumerate(answer[f"{task}/experts"]):
            shown_weight = weights.get(expert, [0.0, 0.0])[place]
            assert shown_weight == pytest.approx(weight, abs=0.006)


def _short(value: float) -> str:
    """A number as JavaScript's `toPrecision(4)` writes it."""
    return str(int(value)) if value == int(value) else f"{value:#.4g}"
