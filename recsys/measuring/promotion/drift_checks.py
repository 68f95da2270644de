from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.metrics.drift import Drift
from recsys.metrics.drift import category_drift
from recsys.metrics.drift import holm
from recsys.metrics.drift import number_drift

# Rows of each sample: more would only take longer.
_MOST_ROWS = 200_000


def drift_checks(
    before: Mapping[str, pd.Series],
    after: Mapping[str, pd.Series],
    rules: PromotionRules,
) -> list[Check]:
    """Checks that columns are distributed as before.

    A drift counts if its stability index is above the limit and the test,
    corrected for the number of columns, says that it is no chance: in large
    samples every difference is significant, in small ones the index is noise.

    Args:
        before: By name, columns of the training data: features, and the new
            model's predictions. Floats are numbers, all else categories; lists
            are compared by their elements.
        after: The same columns of the day.
        rules: What is allowed.
    """
    drifts = {
        name: _drift(_sample(before[name]), _sample(after[name]))
        for name in before
    }
    p_values = holm([drift.p_value for drift in drifts.values()])
    return [
        Check(
            "drift",
            name,
            drift.psi <= rules.most_psi or p_value > rules.drift_level,
            drift.psi,
            rules.most_psi,
            details={"p_value": p_value},
        )
        for (name, drift), p_value in zip(drifts.items(), p_values, strict=True)
    ]


def _sample(column: pd.Series) -> pd.Series:
    if len(column) <= _MOST_ROWS:
        return column
    return column.sample(_MOST_ROWS, random_state=0)


def _drift(before: pd.Series, after: pd.Series) -> Drift:
    if pd.api.types.is_float_dtype(before):
        return number_drift(before, after)
    if any(
        isinstance(value, list | np.ndarray)
        for value in [*before.head(1), *after.head(1)]
    ):
        before, after = before.explode(), after.explode()
    return category_drift(before.astype(object), after.astype(object))
