from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student

from recsys.reporting.results import best
from recsys.reporting.results import results
from recsys.reporting.trained import Trained
from recsys.reporting.trained import read_trained
from tests.recsys.reporting.run_folders import write_run

pytestmark = pytest.mark.once("torch")


def test_a_sweep_stands_for_its_best_trials_by_validation_loss(
    swept: list[Trained],
) -> None:
    section = results(swept, top_share=0.5)
    assert section is not None
    (table,) = section.tables
    assert table.caption.endswith("best 50% of the trials")
    assert table.header == [
        *("model", "runs", "test loss x 100"),
        *("n/s", "watch auc", "rating mse"),
    ]
    # Top-k's best two are 0.47 and 0.46, not its lowest test losses' order.
    assert table.rows[0][:4] == ["top-k", "2", "46.50 ± 0.50", "2.00 ± 0.00"]
    assert table.rows[1][:3] == ["comet", "2", "*42.50 ± 0.50"]


def test_at_least_one_trial_counts(swept: list[Trained]) -> None:
    assert [run.test_loss for run in best(swept[:4], 0.05)] == [0.47]
    section = results(swept)
    assert section is not None
    assert section.tables[0].rows[0][:3] == ["top-k", "1", "47.00"]


def test_the_asterisk_is_that_of_the_one_sided_test(tmp_path: Path) -> None:
    losses = {
        "comet": [0.40, 0.42, 0.41],
        "moesart": [0.42, 0.47, 0.44],
        "top-k": [0.44, 0.45, 0.46],
        "hash": [0.50, 0.51, 0.52],
    }
    for gate, values in losses.items():
        for seed, loss in enumerate(values):
            write_run(tmp_path / gate / f"seed-{seed}", gate, loss, seed)
    section = results(read_trained([tmp_path]))
    assert section is not None
    shown = {row[0]: row[2] for row in section.tables[0].rows}
    assert section.tables[0].caption.endswith("mean over all runs")
    assert shown["comet"].startswith("*")
    assert not shown["moesart"].startswith("*")
    assert not shown["top-k"].startswith("*")
    # By hand, against the best of the others, for both.
    for gate, significant in (("comet", True), ("moesart", False)):
        low, high = np.array(losses[gate]), np.array(losses["top-k"])
        errors = low.var(ddof=1) / 3, high.var(ddof=1) / 3
        statistic = (low.mean() - high.mean()) / np.sqrt(sum(errors))
        freedom = sum(errors) ** 2 / sum(e**2 / 2 for e in errors)
        assert (student.cdf(statistic, freedom) < 0.05) == significant


def test_without_trainings_there_is_no_table() -> None:
    assert results([]) is None
