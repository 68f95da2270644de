"""Losses of training steps, beside those that they always had."""

import json

import pytest

from recsys.data import Dataset
from tests.golden.losses import CASES
from tests.golden.losses import LOSSES
from tests.golden.losses import losses_of


@pytest.mark.parametrize("case", CASES)
def test_each_step_has_the_loss_it_always_had(case: str, tiny: Dataset) -> None:
    expected = json.loads(LOSSES.read_text(encoding="utf-8"))[case]
    assert losses_of(case, tiny) == pytest.approx(expected, rel=1e-5)
