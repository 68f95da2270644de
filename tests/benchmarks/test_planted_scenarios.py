from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.once("torch")]

Load = Callable[[str], ModuleType]

SIZES, TEST_ROWS = (1500,) * 6 + (300,) * 6, 2000
# The differences are 7 to 15 standard errors by then, as after more steps.
FEW_STEPS = {"LEARNING_RATE": 0.01, "EPOCHS": 25, "PATIENCE": 3}


def test_one_model_beats_both_pooled_and_separate_ones(
    load_script: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By at least three standard errors over the test rows, for one seed."""
    script = load_script("planted_scenarios")
    monkeypatch.setitem(script.OPTIONS, "bottom_units", [32, 32])
    monkeypatch.setitem(script.OPTIONS, "head_units", [])
    for name, value in FEW_STEPS.items():
        monkeypatch.setattr(script, name, value)
    dataset = script.planted(1, SIZES, TEST_ROWS)
    models = ("pooled", "separate", "star")
    losses = {m: script.run(m, dataset, seed=1)[0] for m in models}
    few = slice(6 * TEST_ROWS, None)
    for other in ("pooled", "separate"):
        for rows in (slice(None), few):
            lower = losses[other][rows] - losses["star"][rows]
            assert lower.mean() > 3 * lower.std() / np.sqrt(len(lower))


def test_rows_are_the_same_each_time_and_of_each_country(
    load_script: Load,
) -> None:
    script = load_script("planted_scenarios")
    first, again = (script.planted(1, (40, 20), 10) for _ in range(2))
    assert first.split("train")["click"].equals(again.split("train")["click"])
    assert first.split("train")["country"].value_counts().tolist() == [40, 20]
    assert len(first.split("validation")) == 13 + 7
    other = script.planted(2, (40, 20), 10)
    xs = [np.stack(data.split("test")["x"]) for data in (first, again, other)]
    assert (xs[0] == xs[1]).all()
    assert (xs[0] != xs[2]).any()
