"""The retrieval of runs, query by query."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from recsys.api.promotion import retrieval
from recsys.api.promotion.retrieval import run_retrieval_checks
from recsys.data import Dataset
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.measuring.promotion.retrieval_checks import measure_queries
from recsys.measuring.promotion.rules import PromotionRules
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run

pytestmark = pytest.mark.once("torch")


def test_the_mean_of_all_queries_is_the_metric(
    retrieving_run: Path, films: Dataset
) -> None:
    run = Run(retrieving_run)
    measure = RetrievalMeasure(
        run.load_two_tower(), films, "test", run.read_config(), popular=False
    )
    whole, queries = measure(), measure_queries(measure)
    assert len(queries.weights) == whole["rows"]
    assert len(queries.users["user_recall@5"]) == whole["users"]
    assert queries.clusters is not None
    assert len(np.unique(queries.clusters)) == whole["users"]
    for name, values in queries.rows.items():
        mean = np.average(values, weights=queries.weights)
        assert mean == pytest.approx(whole[name])
    for name, values in queries.users.items():
        assert values.mean() == pytest.approx(whole[name])


def test_a_run_is_no_worse_than_itself(
    retrieving_run: Path, films: Dataset, tmp_path: Path
) -> None:
    def checks(old: Path) -> list[object]:
        return [
            (check.name, check.passed, check.interval)
            for check in run_retrieval_checks(
                old, retrieving_run, films, "test", PromotionRules()
            )
        ]

    names = ["recall@5", "ndcg@5", "user_recall@5", "user_ndcg@5"]
    assert checks(retrieving_run) == [(n, True, (0.0, 0.0)) for n in names]
    assert checks(tmp_path) == []  # An export, which has no retrieval.


@pytest.mark.parametrize(
    ("split", "refit", "rows"),
    [("test", True, 690), ("test", False, 600), ("validation", True, 600)],
)
def test_users_have_had_what_one_of_the_runs_has_learned(
    retrieving_run: Path,
    films: Dataset,
    split: str,
    refit: bool,
    rows: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new = Run(shutil.copytree(retrieving_run, tmp_path / "new"))
    fields = json.loads(new.config.read_text())
    new.config.write_text(json.dumps(fields | {"refit_towers": refit}))
    known = []

    def measure(
        model: TwoTower, dataset: Dataset, *_: object, **__: object
    ) -> None:
        known.append(len(dataset.split("train")))

    monkeypatch.setattr(retrieval, "RetrievalMeasure", measure)
    monkeypatch.setattr(retrieval, "measure_queries", lambda measure: None)
    rules = PromotionRules()
    given = retrieving_run, new.folder, films, split, rules
    assert not [*run_retrieval_checks(*given)]
    assert known == [rows, rows]
