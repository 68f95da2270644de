"""The card beside an export, of a small trained run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recsys
from recsys.api.export_descriptions import write_descriptions
from recsys.api.write_model_card import MODEL_CARD
from recsys.api.write_model_card import write_model_card
from recsys.exporting.examples import examples
from recsys.runs.run import Run
from recsys.serving.page_facts import read_page_facts

pytestmark = pytest.mark.once("torch")


def card_of(run: Path, out: Path) -> str:
    write_descriptions(Run(run), recsys.load_ranker(run), {}, out)
    return (out / MODEL_CARD).read_text()


def rows_of(card: str, title: str) -> pd.DataFrame:
    """The table of a section."""
    text = card.partition(f"## {title}\n\n")[2].partition("\n\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [
        [cell.strip().replace("\\", "") for cell in line[1:-1].split(" |")]
        for line in lines
    ]
    return pd.DataFrame(cells[1:], columns=cells[0])


def test_card_says_what_the_run_measured(run: Path, tmp_path: Path) -> None:
    card = card_of(run, tmp_path)
    metrics = json.loads((run / "metrics.json").read_text())["test"]
    tasks = rows_of(card, "Tasks").set_index(["task", "metric"])
    for task, kind in (("watch", "binary"), ("rating", "regression")):
        loss = metrics["tasks"][task]["loss"]
        row = tasks.loc[(f"{task} ({kind})", "loss")]
        assert row["test split"] == f"{loss:.4g}"
    features = rows_of(card, "Features").set_index("feature")
    assert {"user", "film", "age"} <= {*features.index}
    assert features.loc["film", "input"] == "string"
    assert "- Unknown ids share one learned vector" in card


def test_slices_are_those_of_evaluate(run: Path, tmp_path: Path) -> None:
    """Exact, as the test split has fewer rows than are drawn."""
    slices = rows_of(card_of(run, tmp_path), "Metrics by slice")
    data = json.loads((run / "config.json").read_text())["data"]
    expected = recsys.evaluate(run, data, by="age")["by"]["age"]
    found = slices[slices["slice"].str.startswith("age: ")]
    large = {cut: m for cut, m in expected.items() if m["rows"] >= 50}
    assert {*found["slice"]} == {f"age: {cut}" for cut in large}
    for cut, measured in large.items():
        row = found[(found["slice"] == f"age: {cut}")].set_index("task")
        loss = measured["tasks"]["watch"]["loss"]
        assert row.loc["watch", "loss"] == f"{loss:.4g}"


def test_without_its_data_a_run_has_no_slices(
    run: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(run, tmp_path / "run")
    config = json.loads((moved / "config.json").read_text())
    config["data"] = str(tmp_path / "gone")
    (moved / "config.json").write_text(json.dumps(config))
    card = card_of(moved, tmp_path)
    assert card.startswith("# Model card: gone\n")
    assert str(tmp_path) not in card
    assert {*rows_of(card, "Metrics by slice")["slice"]} == {"all"}


def test_a_model_alone_has_no_card(run: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run, tmp_path / "run")
    (moved / "metrics.json").unlink()
    write_model_card(Run(moved), recsys.load_ranker(run), None, tmp_path)
    assert not (tmp_path / MODEL_CARD).exists()


def test_bands_hold_the_mean_label_of_rows_with_like_predictions(
    run: Path, tiny: recsys.Dataset, tmp_path: Path
) -> None:
    ranker, rows = recsys.load_ranker(run), tiny.split("test")
    write_descriptions(Run(run), ranker, {}, tmp_path)
    bands = read_page_facts(tmp_path, with_ids=False)["calibration"]
    assert {*bands} == {"watch", "rating"}
    for task, band in bands.items():
        known = rows[task].notna().to_numpy()
        predicted = np.sort(ranker.predict(rows)[task].to_numpy()[known])
        bins = band["bins"]
        sizes = [each["rows"] for each in bins]
        assert sum(sizes) == band["rows"] == known.sum()
        ends = np.cumsum(sizes)
        np.testing.assert_allclose(
            [[each["least"], each["most"]] for each in bins],
            np.stack([predicted[ends - sizes], predicted[ends - 1]], axis=1),
            rtol=1e-5,
        )
        observed = np.average([e["observed"] for e in bins], weights=sizes)
        assert observed == pytest.approx(rows[task].mean())
        assert all(e["low"] <= e["observed"] <= e["high"] for e in bins)
        assert band["method"] is None


def test_without_its_data_a_run_has_examples_alone(
    run: Path, tmp_path: Path
) -> None:
    moved = shutil.copytree(run, tmp_path / "run")
    (moved / "config.json").unlink()
    ranker = recsys.load_ranker(run)
    budgets = [1.0, 2.0, 4]
    values = examples(ranker.fitted, budgets)
    write_descriptions(Run(moved), ranker, values, tmp_path)
    facts = read_page_facts(tmp_path, with_ids=True)
    assert facts["calibration"] == {}
    assert facts["examples"]["user"] == [*range(12)]
    assert facts["examples"]["budget"] == budgets
    public = read_page_facts(tmp_path, with_ids=False)
    assert public["examples"] == {"budget": budgets}
