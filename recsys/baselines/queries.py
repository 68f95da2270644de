from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from recsys.baselines.interactions import Part
from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids


@dataclass(frozen=True, eq=False)
class Queries:
    """The rows of a split that count, those of a user together, B rows.

    Attributes:
        users: The ids of the users.
        items: The ids of the items.
        weights: How much each row counts, `(B,)`.
    """

    users: pd.Series
    items: pd.Series
    weights: np.ndarray

    @classmethod
    def of(cls, parts: Iterable[Part]) -> Self:
        """Collects the rows.

        Args:
            parts: The users, the items and the weights of rows, part by part.
        """
        all_parts = list(parts)
        weights = np.concatenate(
            [np.zeros(0), *(part[2] for part in all_parts)]
        )
        users = _joined([part[0] for part in all_parts])
        items = _joined([part[1] for part in all_parts])
        order = np.argsort(pd.factorize(users)[0], kind="stable")
        return cls(
            users.iloc[order].reset_index(drop=True),
            items.iloc[order].reset_index(drop=True),
            weights[order],
        )


def _joined(columns: list[pd.Series]) -> pd.Series:
    filled = [as_ids(column, "ids") for column in columns if len(column)]
    if not filled:
        return pd.Series([], dtype="int64")
    return pd.concat(list(unified_ids(filled)), ignore_index=True)
