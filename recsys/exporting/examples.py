from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from recsys.exporting.served_ranker import BUDGET
from recsys.features.feature import FittedFeature

_MOST = 20
_DRAWN = 100


def examples(
    inputs: Mapping[str, FittedFeature], budgets: Sequence[float] = ()
) -> dict[str, list[Any]]:
    """Returns values that whoever tries a served model can begin with.

    They are no rows of the data: ids are the first ones that the model knows,
    other values are drawn from what was fitted.

    Args:
        inputs: By the name of each input, the feature that it is of.
        budgets: The least budget, the model's own and the largest; nothing
            (default) for an export without one.

    Returns:
        By input, up to 20 different values as JSON has them in a request;
        missing ones, and inputs without any others, are left out.
    """
    by_input = {name: _values(feature) for name, feature in inputs.items()}
    by_input[BUDGET] = [*by_input.get(BUDGET, []), *budgets]
    return {name: values for name, values in by_input.items() if values}


def _values(feature: FittedFeature) -> list[Any]:
    if feature.vocabulary is not None and feature.raw_rank == 1:
        known: list[Any] = feature.vocabulary.values[:_MOST].tolist()
        return known
    generator = np.random.default_rng(0)
    drawn = pd.Series(feature.sample(generator, _DRAWN))
    missing = feature.raw_missing().reshape(-1)[0]
    values = [_value(row, missing) for row in feature.raw(drawn)]
    # Lists are no keys.
    different = {
        str(value): value for value in values if value not in (None, [])
    }
    return [*different.values()][:_MOST]


def _value(row: Any, missing: Any) -> Any:
    """A value, or a list without its padding, `None` for a missing one."""
    if isinstance(row, np.ndarray):
        kept = [_value(value, missing) for value in row]
        return [value for value in kept if value is not None]
    if row == missing or row != row:
        return None
    if isinstance(row, float | np.floating):
        return float(f"{row:.3g}")
    return row.item() if isinstance(row, np.generic) else row
