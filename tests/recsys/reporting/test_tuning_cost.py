from itertools import product

import numpy as np
import pytest

from recsys.reporting.trained import Trained
from recsys.reporting.tuning_cost import best_of_trials
from recsys.reporting.tuning_cost import trials_to_reach
from recsys.reporting.tuning_cost import tuning_cost

pytestmark = pytest.mark.once("torch")

VALIDATION = [0.5, 0.4, 0.6]
TEST = [0.55, 0.43, 0.52]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_mean_is_that_over_all_draws(size: int) -> None:
    draws = product(range(3), repeat=size)
    best = [min(draw, key=lambda i: VALIDATION[i]) for draw in draws]
    expected = np.mean([TEST[i] for i in best])
    drawn = best_of_trials(VALIDATION, TEST, size, resamples=200_000)
    assert drawn == pytest.approx(expected, abs=5e-4)


def test_the_same_draws_each_time() -> None:
    assert best_of_trials(VALIDATION, TEST, 2) == best_of_trials(
        VALIDATION, TEST, 2
    )


def test_the_curves_and_how_many_times_fewer_trials(
    swept: list[Trained],
) -> None:
    section = tuning_cost(swept)
    assert section is not None
    (picture,) = section.pictures
    axis = picture.figure.axes[0]
    curves = {line.get_label(): line.get_ydata() for line in axis.lines}
    assert list(curves) == ["top-k", "comet"]
    for trials, name in ((swept[:4], "top-k"), (swept[4:], "comet")):
        assert curves[name][0] == pytest.approx(
            100 * np.mean([run.test_loss for run in trials]), abs=0.5
        )
        last = best_of_trials(
            [run.validation_loss for run in trials],
            [run.test_loss for run in trials],
            4,
        )
        assert curves[name][3] == pytest.approx(100 * last)
    (table,) = section.tables
    assert table.header == [
        *("model", "trials", "test loss x 100"),
        *("trials of top-k", "trials of comet"),
    ]
    needed = trials_to_reach(curves["comet"], curves["top-k"][3])
    assert needed is not None
    assert table.rows[0][4] == f"{needed} ({4 / needed:.1f}x fewer)"
    assert table.rows[1][3] == "not reached"


def test_a_single_model_is_compared_with_none(swept: list[Trained]) -> None:
    section = tuning_cost(swept[:4])
    assert section is not None
    (table,) = section.tables
    assert table.header == ["model", "trials", "test loss x 100"]
    assert [row[:2] for row in table.rows] == [["top-k", "4"]]


def test_runs_outside_sweeps_have_no_curve(swept: list[Trained]) -> None:
    assert tuning_cost([]) is None
    assert tuning_cost(swept[:1]) is None
