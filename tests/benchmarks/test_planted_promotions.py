"""The rules of promotion on planted pairs, a small version."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("share", [0.0, 0.5, -0.5])
def test_planted_models_are_calibrated(share: float) -> None:
    task = Planted(share).draw(200_000, np.random.default_rng(3))
    for predictions in (task.old, task.new):
        assert predictions.mean() == pytest.approx(task.labels.mean(), rel=0.03)
