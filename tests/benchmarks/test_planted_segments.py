from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.once("torch")

Load = Callable[[str], ModuleType]


def test_rows_are_those_of_the_seed(load_script: Load) -> None:
    script = load_script("planted_segments")
    first, again, other = (
        script.planted_segments(400, 4, seed)[0] for seed in (1, 1, 2)
    )
    for name, count in (("train", 280), ("validation", 60), ("test", 60)):
        rows = first.split(name)
        assert len(rows) == count
        assert rows.equals(again.split(name))
        assert not rows.equals(other.split(name))
    assert first.split("train")["segment"].nunique() == 4


def test_the_planted_loss_is_that_of_labels_a_segment_decides(
    load_script: Load,
) -> None:
    """Without the segment, the best prediction is a coin's, as by symmetry."""
    script = load_script("planted_segments")
    dataset, losses = script.planted_segments(20_000, 64)
    assert ((losses > 0.2) & (losses < 0.5)).all()
    rows = dataset.split("train")
    by_sign = rows.groupby(rows[script.NUMBERS[0]] > 0)["click"].mean()
    assert np.abs(by_sign - 0.5).max() < 0.08
