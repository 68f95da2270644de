from pathlib import Path

import pandas as pd
import pytest

import recsys
from recsys.runs.run import Run
from tests.recsys.retrieval.id_kinds import IdKinds

pytestmark = [pytest.mark.once("torch"), pytest.mark.slow]


def test_a_smaller_ranker_has_the_same_retrieval(
    retrieving_run: Path, ids: IdKinds, tmp_path: Path
) -> None:
    data = Run(retrieving_run).read_config().data
    small = tmp_path / "small"
    metrics = recsys.compress(retrieving_run, data, small, experts=2, int8=True)
    before = recsys.evaluate(retrieving_run, data)["retrieval"]
    after = metrics["test"]["retrieval"]
    for part in ("popular", "diversity"):
        assert after.pop(part) == pytest.approx(before.pop(part))
    assert after == pytest.approx(before)
    items, expected = (
        recsys.recommend(run, ids.user(1), top=30)["item"]
        for run in (small, retrieving_run)
    )
    pd.testing.assert_series_equal(
        items.sort_values(ignore_index=True),
        expected.sort_values(ignore_index=True),
    )
