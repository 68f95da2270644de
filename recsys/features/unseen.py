from dataclasses import dataclass
from typing import Any

import pandas as pd

from recsys.features.id_values import as_ids
from recsys.features.id_values import unified_ids


@dataclass(frozen=True)
class Unseen:
    """How many ids of a feature a split has that training does not.

    Attributes:
        ids: How many different ids the split has.
        share_of_ids: Share of them that are not in the training split.
        share_of_rows: Share of the rows that have one of these.
    """

    ids: int
    share_of_ids: float
    share_of_rows: float

    @classmethod
    def of(cls, column: "pd.Series[Any]", train: "pd.Series[Any]") -> "Unseen":
        """Compares a column of ids with that of the training split.

        Example:
        >>> Unseen.of(pd.Series([7, 7, 7, 8]), pd.Series([8, 9]))
        Unseen(ids=2, share_of_ids=0.5, share_of_rows=0.75)
        """
        given, known = unified_ids(
            [as_ids(one, "ids").dropna() for one in (column, train)]
        )
        unseen = given[~given.isin(known.unique())]
        num_ids = given.nunique()
        return cls(
            num_ids,
            unseen.nunique() / max(1, num_ids),
            len(unseen) / max(1, len(column)),
        )
