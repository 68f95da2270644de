"""The retrieval of runs, query by query."""

from pathlib import Path

import numpy as np
import pytest

from recsys.api.promotion.retrieval import run_retrieval_checks
from recsys.data import Dataset
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.measuring.promotion.retrieval_checks import measure_queries
from recsys.measuring.promotion.rules import PromotionRules
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
