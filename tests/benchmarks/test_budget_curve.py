"""The table and the figure of one model beside a model for each budget."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

pytestmark = pytest.mark.once("torch")

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "budget_curve.json"
DRAWS = RESULTS.with_name("budget_curve_draws.json")
PAGES = ["docs/one_model_any_budget.md", "benchmarks/README.md"]


@pytest.fixture
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("budget_curve")


def results_of(script: ModuleType, *losses: tuple[float, float]) -> list[dict]:
    """A line of both models for each seed, with these losses."""
    return [
        {
            "seed": seed,
            "model": model,
            "budget": 2,
            "loss": loss,
            "experts": 2.0 + seed,
            "cpu_us": 5.0,
        }
        for seed, pair in enumerate(losses)
        for model, loss in zip((script.ONE, script.EACH), pair, strict=True)
    ]


def test_differences_are_paired_by_seed(script: ModuleType) -> None:
    results = pd.DataFrame(results_of(script, (1.01, 1.0), (2.06, 2.0)))
    summary = script.summary(results)
    (row,) = summary.to_dict("records")
    # +1 % and +3 %: a standard deviation of sqrt(2), of two seeds.
    assert row["difference"] == pytest.approx(2)
    assert row["error"] == pytest.approx(1)
    assert row[f"loss {script.ONE}"] == pytest.approx(1.535)
    assert row[f"experts {script.EACH}"] == pytest.approx(2.5)


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_have_the_table(script: ModuleType, page: str) -> None:
    table = script.table(pd.read_json(RESULTS))
    assert table in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_have_the_losses_of_a_wider_draw(page: str) -> None:
    results = pd.read_json(DRAWS)
    results["drawn"] = results["train_budgets"].map(max)
    losses = results.groupby(["drawn", "split", "budget"])["loss"].mean()
    text = (ROOT / page).read_text(encoding="utf-8")
    for budget, loss in losses[16, "test"].items():
        (line,) = (
            line
            for line in text.splitlines()
            if line.startswith(f"| {budget} |") and f"| {loss:.4f} |" in line
        )
        chosen, default = (losses[n, "validation"][budget] for n in (16, 8))
        assert line.endswith(f"| {chosen:.4f}; {default:.4f} |")


@pytest.mark.draws
def test_the_figure_is_drawn_from_the_results(script: ModuleType) -> None:
    results = pd.read_json(RESULTS)
    losses, times = script.draw(results).axes
    means = script.summary(results)
    drawn = [line.get_ydata() for line in losses.lines if len(line.get_xdata())]
    for model in (script.ONE, script.EACH):
        expected = means[f"loss {model}"].tolist()
        assert any(list(values) == expected for values in drawn)
    assert times.get_ylabel() == "CPU µs per row"
    assert "one model" in (ROOT / "docs" / "budget_curve.svg").read_text()
