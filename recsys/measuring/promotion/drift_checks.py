from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.features.feature import Feature
from recsys.features.vector import Vector
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
    A column that has only one value on the day, and had others before, is
    broken, however rare these were, if the test says that it is no chance.

    Args:
        before: By name, columns of the training data: features, labels, and
            the new model's predictions. Floats are numbers, all else
            categories; lists are compared by their elements.
        after: The same columns of the day.
        rules: What is allowed.
    """
    drifts = {
        name: _drift(_sample(before[name]), _sample(after[name]))
        for name in before
    }
    p_values = holm([drift.p_value for drift in drifts.values()])
    checks = []
    for (name, drift), p_value in zip(drifts.items(), p_values, strict=True):
        constant = _is_constant(after[name]) and not _is_constant(before[name])
        changed = constant or drift.psi > rules.most_psi
        checks.append(
            Check(
                "drift",
                name,
                not changed or p_value > rules.drift_level,
                drift.psi,
                rules.most_psi,
                details={"p_value": p_value, "constant": constant},
            )
        )
    return checks


def _is_constant(column: pd.Series) -> bool:
    """Whether all values are the same or missing."""
    return _elements(column).nunique() < 2


def _sample(column: pd.Series) -> pd.Series:
    if len(column) <= _MOST_ROWS:
        return column
    return column.sample(_MOST_ROWS, random_state=0)


def _drift(before: pd.Series, after: pd.Series) -> Drift:
    if pd.api.types.is_float_dtype(before):
        return number_drift(before, after)
    return category_drift(
        _elements(before).astype(object), _elements(after).astype(object)
    )


def _elements(column: pd.Series) -> pd.Series:
    """The elements of lists; other columns as they are."""
    lists = (isinstance(value, list | np.ndarray) for value in column.head(1))
    return column.explode() if any(lists) else column


def alike(kind: Feature, columns: Sequence[pd.Series]) -> Sequence[pd.Series]:
    """Returns columns of several files in one form; of vectors all numbers.

    Args:
        kind: Kind of their feature.
        columns: The columns.
    """
    if isinstance(kind, Vector):
        return [column.explode().astype(np.float64) for column in columns]
    return kind.unified(columns)


def unknown_checks(
    kinds: Mapping[str, Feature],
    trained: Mapping[str, pd.DataFrame],
    rows: pd.DataFrame,
    rules: PromotionRules,
) -> Iterator[Check]:
    """Checks the share of rows with an id that the training split lacks.

    Args:
        kinds: By feature, its kind; those without ids have no check.
        trained: The splits that the new model was trained on.
        rows: Those of the day.
        rules: What is allowed.
    """
    train, validation = trained["train"], trained["validation"]
    for name, kind in kinds.items():
        usual = kind.unseen(validation[name], train[name])
        new = kind.unseen(rows[name], train[name])
        if new is None or usual is None:
            continue
        more = new.share_of_rows - usual.share_of_rows
        most = rules.most_unknown_increase
        details = {"old": usual.share_of_rows, "new": new.share_of_rows}
        check = f"unknown ids of {name}"
        yield Check("drift", check, more <= most, more, most, None, details)
