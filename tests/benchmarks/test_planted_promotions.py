"""The rules of promotion on planted pairs, a small version."""

import numpy as np
import pytest

from benchmarks.planted_promotions import Beside
from benchmarks.planted_promotions import Planted
from benchmarks.planted_promotions import accepted


def test_equal_models_are_seldom_accepted() -> None:
    """At most 5 %, plus 3 standard errors of 300 draws."""
    equal = Planted(0.0)
    assert accepted([equal], 2000, 300) <= 0.05 + 0.038
    assert accepted([equal, equal], 2000, 150) <= 0.05 + 0.054


def test_better_models_are_accepted_and_worse_ones_never() -> None:
    assert accepted([Planted(0.5)], 40_000, 20) == 1.0
    assert accepted([Planted(-0.5)], 40_000, 20) == 0.0
    assert accepted([Planted(0.5), Planted(-0.5)], 40_000, 10) == 0.0


@pytest.mark.parametrize("beside", [Beside(-0.05, 0.0), Beside(0.0, -0.05)])
def test_no_improvement_outweighs_a_drop_beside_it(beside: Beside) -> None:
    """At most 5 %, plus 3 standard errors of 60 draws."""
    better = [Planted(0.5)]
    assert accepted(better, 20_000, 60, beside=beside) <= 0.05 + 0.085


def test_recall_and_value_that_are_better_are_no_obstacle() -> None:
    beside = Beside(0.1, 0.15)
    assert accepted([Planted(0.5)], 40_000, 10, beside=beside) == 1.0
    assert accepted([Planted(0.0)], 2000, 100, beside=beside) <= 0.05 + 0.066


@pytest.mark.parametrize("share", [0.0, 0.5, -0.5])
def test_planted_models_are_calibrated(share: float) -> None:
    task = Planted(share).draw(200_000, np.random.default_rng(3))
    for predictions in (task.old, task.new):
        assert predictions.mean() == pytest.approx(task.labels.mean(), rel=0.03)
