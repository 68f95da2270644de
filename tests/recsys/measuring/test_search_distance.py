import warnings
from typing import Any

import pandas as pd
import pytest

from recsys import TrainConfig
from recsys.config.resolved_config import ResolvedConfig
from recsys.measuring.search_distance import search_distance
from recsys.measuring.search_distance import warn_if_apart

ONE = {"permutation_distance": [2.0, 1.5, 0.0, 0.0]}
SEVERAL = {
    "permutation_3_permutation_distance": [2.0, 0.01, 0.0, 0.0],
    "permutation_7_permutation_distance": [3.0, 1.0, 0.0, 0.0],
}


def distance(columns: dict[str, Any], epochs: int = 4) -> Any:
    config = TrainConfig("synthetic", "run", gate="top-k+", search_epochs=2)
    history = pd.DataFrame({"epoch": [1, 2, 3, 4], **columns})
    return search_distance(ResolvedConfig.of(config), history[:epochs])


def test_the_distance_is_that_of_the_last_epoch_of_the_search() -> None:
    assert distance(ONE) == 1.5


def test_a_training_that_ended_first_has_that_of_its_own_last_epoch() -> None:
    assert distance(ONE, epochs=1) == 2.0


def test_several_permutations_have_a_distance_each() -> None:
    expected = {"permutation_3": 0.01, "permutation_7": 1.0}
    assert distance(SEVERAL) == expected


def test_without_a_search_there_is_none() -> None:
    assert distance({"val_loss": [0.5] * 4}) is None


@pytest.mark.parametrize(
    ("distance", "found"),
    [
        (1.414, r"1\.41\. The"),
        (
            {"permutation_3": 0.01, "permutation_7": 1.0},
            r"permutation_7 1\.00\.",
        ),
    ],
)
def test_an_end_far_from_a_permutation_is_warned_of(
    distance: Any, found: str
) -> None:
    with pytest.warns(
        UserWarning,
        match=rf"expected a distance of at most 0\.1\. Received: {found}",
    ):
        warn_if_apart({"permutation_distance": distance})


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"permutation_distance": 0.1},
        {"permutation_distance": {"permutation_3": 0.0}},
    ],
)
def test_nothing_else_is(metrics: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_apart(metrics)
