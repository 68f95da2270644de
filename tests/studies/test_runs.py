from pathlib import Path

import pytest

from recsys.errors import FileError
from studies.runs import Measures
from studies.runs import Settings
from studies.runs import run_all
from studies.runs import summary

PLAN = [{"model": model, "seed": seed} for model in "ab" for seed in (0, 1)]


def score(settings: Settings) -> Measures:
    return {"loss": float(settings["seed"] or 0), "at": None}


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path) -> None:
    trained = []

    def interrupted(settings: Settings) -> Measures:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(settings)
        return score(settings)

    with pytest.raises(KeyboardInterrupt):
        run_all(PLAN, interrupted, tmp_path)
    rest = []

    def counted(settings: Settings) -> Measures:
        rest.append(settings)
        return score(settings)

    results = run_all(PLAN, counted, tmp_path)
    assert trained == PLAN[:3]
    assert rest == PLAN[3:]
    assert results["loss"].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert run_all(PLAN[2:], counted, tmp_path)["model"].tolist() == ["b", "b"]
    assert len(rest) == 1


def test_a_broken_file_of_results_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"a": 1}')
    with pytest.raises(FileError, match=r"results\.json"):
        run_all(PLAN, score, tmp_path)


def test_what_was_not_measured_does_not_count(tmp_path: Path) -> None:
    results = run_all(PLAN, score, tmp_path)
    assert summary(results, ["model"], {"loss": 1, "at": 0}).splitlines() == [
        "| model | runs | loss | at |",
        "|---|---|---|---|",
        "| a | 2 | 0.5 ± 0.5 |  |",
        "| b | 2 | 0.5 ± 0.5 |  |",
    ]


def test_what_no_run_measures_has_no_column(tmp_path: Path) -> None:
    results = run_all(PLAN, score, tmp_path)
    table = summary(results, ["model"], {"loss": 1, "elsewhere": 0})
    assert table.splitlines()[0] == "| model | runs | loss |"
