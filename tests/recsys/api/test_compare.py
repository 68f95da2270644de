import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import recsys
from recsys import Comparison
from recsys import FileError
from recsys import RunError
from recsys import TrainConfig
from recsys.processes.training_processes import TrainingProcesses
from recsys.reporting.comparison_table import comparison_table
from tests.recsys import fake_trainer
from tests.recsys.api.sweeps import TWO_AT_A_TIME
from tests.recsys.api.sweeps import use_fake

pytestmark = pytest.mark.once("torch")

Settings = Callable[..., dict[str, Any]]

MODELS = {"Top-k": {"gate": "top-k"}, "Top-k+": {"gate": "top-k+"}}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_table_has_means_standard_errors_and_the_one_sided_test() -> None:
    rng = np.random.default_rng(0)
    losses = {"b": rng.normal(0.40, 0.01, 8), "b+": rng.normal(0.39, 0.02, 6)}
    results = pd.concat(
        pd.DataFrame(
            {
                "setting": "",
                "model": model,
                "seed": np.arange(len(values))[::-1],
                "loss": values,
            }
        )
        for model, values in losses.items()
    )
    lines = comparison_table(results, {"b+": "b"}).splitlines()
    assert cells(lines[0]) == [
        "model",
        "seeds",
        "loss x 100",
        "difference x 100",
        "p",
    ]
    for line, (model, values) in zip(lines[2:], losses.items(), strict=True):
        error = values.std(ddof=1) / len(values) ** 0.5
        mean = f"{100 * values.mean():.2f} ± {100 * error:.2f}"
        assert cells(line)[:3] == [model, str(len(values)), mean]
    # Welch's test, by hand.
    low, high = losses["b+"], losses["b"]
    parts = [v.var(ddof=1) / len(v) for v in (low, high)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 5 + parts[1] ** 2 / 7)
    p = student.cdf((low.mean() - high.mean()) / sum(parts) ** 0.5, freedom)
    assert cells(lines[2])[3:] == ["", ""]
    assert float(cells(lines[3])[4]) == pytest.approx(p, rel=0.05)
    # Seeds 0 to 5, which both have, are the last of either.
    differences = 100 * (losses["b+"] - losses["b"][2:])
    error = differences.std(ddof=1) / 6**0.5
    assert cells(lines[3])[3] == f"{differences.mean():.3f} ± {error:.3f}"


def test_table_has_the_distance_of_the_models_that_searched() -> None:
    results = pd.DataFrame(
        {
            "setting": ["with", "with", "with", "without"],
            "model": ["a", "a+", "a+", "a"],
            "seed": [0, 0, 1, 0],
            "loss": 0.5,
            "permutation distance": [np.nan, 1.5, 0.001, np.nan],
        }
    )
    first, second = comparison_table(results).split("\n\n### ")
    header, _, *lines = map(cells, first.splitlines()[2:])
    assert header[-1] == "permutation distance"
    assert [line[-1] for line in lines] == ["", "0.75"]
    assert "distance" not in second


def test_table_has_a_part_for_each_setting() -> None:
    results = pd.DataFrame(
        {"setting": ["first", "second"], "model": "a", "loss": [0.1, 0.2]}
    )
    first, second = comparison_table(results).split("\n\n### ")
    assert first.startswith("### first")
    assert second.startswith("second")
    assert "| a | 1 | 20.00 |" in second


def test_runs_are_all_combinations() -> None:
    comparison = Comparison(
        MODELS,
        base={"data": "synthetic", "k": 3},
        settings={"a": {"epochs": 1}, "b": {"epochs": 2, "k": 1}},
        seeds=[4, 5],
    )
    runs = comparison.runs(Path("out"), data="elsewhere")
    assert len({run.config.out for run in runs}) == 2 * 2 * 2
    (run,) = [r for r in runs if r.config.out == "out/b/Top-k+/seed-5"]
    assert (run.config.seed, run.config.epochs, run.config.k) == (5, 2, 1)
    assert (run.config.gate, run.config.data) == ("top-k+", "elsewhere")


@pytest.mark.parametrize(("seeds", "expected"), [(3, [0, 1, 2]), ([5], [5])])
def test_seeds_are_listed_or_counted(
    seeds: Any, expected: list[int], tmp_path: Path
) -> None:
    assert Comparison(MODELS, seeds=seeds).seeds == expected
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps({"models": MODELS, "seeds": seeds}))
    assert Comparison.read(file).seeds == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], ": expected an object. Received: []"),
        ("models", ": expected an object. Received: 'models'"),
        ({}, ": expected a value at models. Received: none"),
        ({"models": []}, ": expected an object at models. Received: []"),
        ({"models": {}}, ": `models` of a comparison must not be empty. Re"),
        ({"models": {"a": []}}, ": expected an object at models.a. Received"),
        ({"models": {"a": "top-k"}}, ": expected an object at models.a. Rec"),
        (
            {"models": {"a": {"k": 0}}},
            ", models.a: `k` must be at least 1. Received: k=0",
        ),
        (
            {"models": {"a": {"k": [1]}}},
            ", models.a: `k` must be an integer. Received: k=[1]",
        ),
        (
            {"models": {"a": {"gates": "x"}}},
            ", models.a: expected one of the fields data, out, ",
        ),
        (
            {"models": {"a": {"seed": 1}}},
            ", models.a: `seed` of a run is set by `seeds` of the compari",
        ),
        (
            {"models": MODELS, "base": {"out": "here"}},
            ", base: `out` of a run is set by the names of the comparison",
        ),
        ({"models": MODELS, "base": ["k", 2]}, ": expected an object at base"),
        ({"models": MODELS, "settings": {}}, ": `settings` of a comparison m"),
        ({"models": MODELS, "settings": {"a": 1}}, "an object at settings.a"),
        (
            {"models": MODELS, "settings": {"": {}, "a": {}}},
            ": `settings` of a comparison must have names if there are severa",
        ),
        ({"models": MODELS, "seeds": []}, ", seeds: expected seeds, each once"),
        ({"models": MODELS, "seeds": [1, 1]}, ", seeds: expected seeds, each "),
        ({"models": MODELS, "seeds": 0}, ", seeds: expected 1 to 1,000 seeds"),
        ({"models": MODELS, "seeds": 10**9}, ", seeds: expected 1 to 1,000 "),
        ({"models": MODELS, "seeds": True}, ": expected a list at seeds. Rec"),
        ({"models": MODELS, "seeds": "2"}, ": expected a list at seeds. Rece"),
        ({"models": MODELS, "seeds": [0.5]}, ": expected an integer at seeds["),
        (
            {"models": MODELS, "seeds": [-1]},
            ": expected at least 0 at seeds[0]. Rec",
        ),
        ({"models": MODELS, "against": []}, ": expected an object at against"),
        ({"models": MODELS, "against": {"Top-k+": "x"}}, "Received: 'x'"),
        (
            {"models": MODELS, "against": {"Top-k": 1}},
            "a text at against.",
        ),
        (
            {"models": MODELS, "seed": 1},
            ": expected one of the fields models, base, settings, seeds, agai",
        ),
    ],
)
def test_wrong_files(content: Any, message: str, tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps(content))
    with pytest.raises(FileError, match=re.escape(message)) as caught:
        Comparison.read(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize(
    "name",
    [
        *("../x", "a/b", "/x", "a\\b", "..", ".", ".x", "", " a", "a\n"),
        *("a\0", "\x1b[31m", "results.csv", "table.md", "a" * 101),
    ],
)
def test_name_that_no_folder_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a valid name of a folder"):
        Comparison({name: {"gate": "top-k"}})
    if name:
        with pytest.raises(ValueError, match="a valid name of a folder"):
            Comparison(MODELS, settings={name: {}})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gate": "best"}, "`gate` must be one of softmax, "),
        ({"gate": "comet", "gate_options": {"gama": 1}}, "must be among gamma"),
        ({"k": 99}, "`k` must be"),
        ({"task_weights": {"click": 1}}, "`task_weights` must be for the "),
        ({"hash_feature": "colour"}, "`hash_feature` must be one of"),
    ],
)
def test_all_models_are_checked_before_the_first_is_trained(
    fields: dict[str, Any],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a model is trained")

    monkeypatch.setattr(TrainingProcesses, "train", refuse)
    file = tmp_path / "comparison.json"
    models = {"good": {"gate": "top-k"}, "bad": {"gate": "top-k", **fields}}
    content = {"base": {"data": "synthetic"}, "models": models}
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        recsys.compare(file, tmp_path / "out")
    places = f"{file}: model 'bad': ", f"{file}, models.bad: "
    assert str(caught.value).startswith(places)
    assert not (tmp_path / "out").exists()


def test_data_of_a_comparison_are_needed(tmp_path: Path) -> None:
    file = tmp_path / "comparison.json"
    file.write_text(json.dumps({"models": MODELS}))
    with pytest.raises(ValueError, match="`data` must be given") as caught:
        recsys.compare(file, tmp_path / "out")
    assert str(caught.value).startswith(str(file))


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_trains_what_is_missing_and_writes_the_table(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = settings(tmp_path, epochs=1, num_experts=8)
    del base["out"]
    comparison = Comparison(MODELS, base, against={"Top-k+": "Top-k"})
    results = recsys.compare(comparison, tmp_path / "out")
    assert sorted(results["model"]) == list(MODELS)
    metrics = tmp_path / "out" / "Top-k" / "seed-0" / "metrics.json"
    loss = json.loads(metrics.read_text())["test"]["loss"]
    assert f"{100 * loss:.2f}" in (tmp_path / "out" / "table.md").read_text()
    written = pd.read_csv(tmp_path / "out" / "results.csv")
    assert written["loss"].tolist() == results["loss"].tolist()
    run = tmp_path / "out" / "Top-k+" / "seed-0" / "metrics.json"
    distance = json.loads(run.read_text())["permutation_distance"]
    assert distance > 0
    distances = written.set_index("model")["permutation distance"]
    assert distances["Top-k+"] == pytest.approx(distance)
    assert pd.isna(distances["Top-k"])

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished run is trained again")

    monkeypatch.setattr("subprocess.Popen", refuse)
    again = recsys.compare(comparison, tmp_path / "out")
    pd.testing.assert_frame_equal(again, results)
    other = Comparison(MODELS, {**base, "k": 1})
    with pytest.raises(RunError, match="another configuration"):
        recsys.compare(other, tmp_path / "out")


def test_runs_are_trained_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_fake(monkeypatch, tmp_path, TWO_AT_A_TIME)
    comparison = Comparison(MODELS, {"data": "synthetic"})
    results = recsys.compare(comparison, tmp_path / "out", jobs=2)
    assert sorted(results["model"]) == list(MODELS)
    assert len(fake_trainer.processes(tmp_path)) == 2


def test_a_failure_does_not_keep_the_others_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = []

    def train(self: TrainingProcesses, config: TrainConfig) -> None:
        trained.append(config.gate)
        if config.gate == "top-k":
            raise RunError("Top-k does not work")

    monkeypatch.setattr(TrainingProcesses, "train", train)
    comparison = Comparison(MODELS, {"data": "synthetic"})
    with pytest.raises(RunError, match="Top-k does not work"):
        recsys.compare(comparison, tmp_path)
    assert trained == ["top-k", "top-k+"]


def test_jobs_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`jobs` must be at least 1"):
        recsys.compare(Comparison(MODELS), tmp_path, jobs=0)


@pytest.mark.parametrize(("place", "runs"), [(0, 2 * 3 * 3), (1, 3)])
def test_documented_files(place: int, runs: int, tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "comparing.md"
    texts = re.findall(r"```json\n(.*?)```", page.read_text(), re.S)
    file = tmp_path / "comparison.json"
    file.write_text(texts[place])
    comparison = Comparison.read(file)
    data = comparison.base.get("data", "synthetic")
    assert len(comparison.runs(tmp_path, data=data)) == runs


@pytest.mark.slow
@pytest.mark.usefixtures("warm_python")
def test_baselines_and_single_tasks_are_rows_like_any_other(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = settings(tmp_path, epochs=1, num_experts=4)
    del base["out"]
    weights = {"watch": 0.8, "rating": 0.2}
    models = {
        "biases": {
            "baseline": "bias",
            "options": {"lambda-user": 3, "lambda-item": 3},
        },
        "alone": {"single_tasks": True, "architecture": "shared-bottom"},
        "bottom": {"architecture": "shared-bottom"},
    }
    comparison = Comparison(
        models,
        {**base, "task_weights": weights, "standardize_targets": True},
        seeds=[3],
        against={"alone": "bottom"},
    )
    out = tmp_path / "out"
    results = recsys.compare(comparison, out).set_index("model")
    assert sorted(results.index) == sorted(models)
    assert (results["seconds"] > 0).all()

    def metrics(folder: str) -> Any:
        return json.loads((out / folder / "metrics.json").read_text())["test"]

    # All losses are the same sum of the tasks' losses.
    biases = metrics("biases/seed-3")["tasks"]
    alone = {
        "watch": metrics("alone/seed-3/task-1")["tasks"]["watch"],
        "rating": metrics("alone/seed-3/task-2")["tasks"]["rating"],
    }
    for model, tasks in (("biases", biases), ("alone", alone)):
        loss = weights["watch"] * tasks["watch"]["loss"]
        loss += weights["rating"] * tasks["rating"]["standardized_loss"]
        assert results["loss"][model] == pytest.approx(loss)
        auc = tasks["watch"]["auc"]
        assert results["watch auc"][model] == pytest.approx(auc)
    line = "alone against bottom, too few seeds for an order: "
    assert line in (out / "table.md").read_text()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("what is finished is made again")

    monkeypatch.setattr("subprocess.Popen", refuse)
    again = recsys.compare(comparison, out).set_index("model")
    pd.testing.assert_frame_equal(again, results)
    options = {"baseline": "bias", "options": {"lambda-user": 1}}
    other = Comparison({"biases": options}, comparison.base, seeds=[3])
    with pytest.raises(RunError, match="another configuration"):
        recsys.compare(other, out)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"baseline": "best"}, "`model` must be "),
        ({"baseline": "bias", "gate": "top-k"}, "gate"),
        ({"baseline": "bias", "seed": 1}, "`seed` of a run is set by"),
        ({"single_tasks": 1}, "`single_tasks` must be true or false. Rec"),
        ({"single_tasks": True, "gates": 1}, "expected one of the fields "),
    ],
)
def test_wrong_models(model: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Comparison({"a": model}, {"data": "synthetic"})


def test_a_comparison_with_a_name_is_made_for_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def make(self: TrainingProcesses, *arguments: Any) -> None:
        made.append(arguments[0])

    monkeypatch.setattr(TrainingProcesses, "train", make)
    monkeypatch.setattr(TrainingProcesses, "complete", make)
    recsys.compare("experts", tmp_path, data="synthetic", seeds=2)
    # Four baselines, two tasks alone, two shared bottoms and two mixtures.
    assert len(made) == 2 * (4 + 2 + 4)
    with pytest.raises(ValueError, match="`data` must be given for the comp"):
        recsys.compare("experts", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"did you mean 'experts'\?"):
        recsys.compare("expert", tmp_path, data="synthetic")
