"""Labels of the day against those of training, whatever their numbers."""

import numpy as np
import pandas as pd
import pytest

from recsys.api.promotion.drift import drift_since
from recsys.data import Dataset
from recsys.data import Schema
from recsys.data.split_dataset import SPLITS
from recsys.measuring.promotion.rules import PromotionRules

pytestmark = pytest.mark.once("torch")


class Same:
    """A model that predicts nothing."""

    def predict(self, *_: object) -> dict[str, np.ndarray]:
        return {}


def data(classes: list[str], reasons: list[str], rows: int = 400) -> Dataset:
    """Users beyond 2**53; classes are numbered in the order of their list."""
    frame = pd.DataFrame(
        {
            "user": 2**53 + np.arange(rows) % 7,
            "reason": np.resize([classes.index(r) for r in reasons], rows)
            * 1.0,
        }
    )
    schema = Schema(
        "day",
        {"user": "id"},
        {"reason": {"type": "multiclass", "classes": classes}},
    )
    return Dataset(schema, dict.fromkeys(SPLITS, frame))


@pytest.mark.parametrize(
    ("reasons", "passed"),
    [(["gift", "sale", "sale"], True), (["sale", "gift", "gift"], False)],
)
def test_classes_are_compared_by_name(reasons: list[str], passed: bool) -> None:
    trained = data(["gift", "sale"], ["gift", "sale", "sale"])
    day = data(["sale", "gift"], reasons)
    found = drift_since(
        trained,
        Same(),  # type: ignore[arg-type]
        day,
        "test",
        {},
        PromotionRules(),
    )
    by_name = {check.name: check.passed for check in found}
    assert by_name == {
        "user": True,
        "labels of reason": passed,
        "unknown ids of user": True,
    }
