from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
import pandas as pd

from recsys.features.feature import Feature
from recsys.features.vector import Vector
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules


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
