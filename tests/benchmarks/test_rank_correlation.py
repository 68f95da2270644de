from collections.abc import Callable
from types import ModuleType

import pandas as pd
import pytest

Load = Callable[[str], ModuleType]

# Means: a 0.2, b 0.3, c 0.1.
RESULTS = pd.DataFrame(
    {
        "setting": "alpha 0.9",
        "model": ["a", "a", "b", "c", "d"],
        "seed": [0, 1, 0, 0, 0],
        "loss": [0.1, 0.3, 0.3, 0.1, 0.9],
    }
)


@pytest.mark.parametrize(
    ("losses", "tau"),
    [
        ({"a": 2, "b": 3, "c": 1}, 1.0),
        ({"a": 2, "b": 1, "c": 3}, -1.0),
        # Of three pairs two agree.
        ({"a": 3, "b": 2, "c": 1}, 0.333),
    ],
)
def test_by_hand(
    load_script: Load, losses: dict[str, float], tau: float
) -> None:
    script = load_script("rank_correlation")
    published = {"alpha 0.9": {"table": losses | {"not measured": 5}}}
    (line,) = script.rank_correlations(RESULTS, published)
    assert line["tau"] == tau
    assert (line["models"], line["seeds"]) == (3, 1)
    # Each of the 3! orders is as likely: 1/3 are as far from 0 as +-1.
    assert line["p"] == (1.0 if tau == 0.333 else 0.33)


def test_other_settings_and_single_models_have_no_order(
    load_script: Load,
) -> None:
    script = load_script("rank_correlation")
    published = {
        "alpha 0.1": {"table": {"a": 1, "b": 2}},
        "alpha 0.9": {"table": {"a": 1, "not measured": 2}},
    }
    assert list(script.rank_correlations(RESULTS, published)) == []


def test_the_published_losses_are_of_models_that_are_compared(
    load_script: Load,
) -> None:
    script = load_script("rank_correlation")
    folder = script.PUBLISHED.parent
    published = pd.read_json(script.PUBLISHED, typ="series")
    compared = pd.read_json(folder / "gates.json", typ="series")
    assert set(published.index) == set(compared["settings"])
    for tables in published:
        for losses in tables.values():
            assert set(losses) <= set(compared["models"])
