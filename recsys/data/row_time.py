from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from recsys.columns.kind import Kind
from recsys.data.times import kind_of_times
from recsys.data.times import parse_times
from recsys.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


class RowTime(Kind):
    """When a row was; none is missing.

    Attributes:
        feature: What the column means to a model, too, and whose form it keeps
            then. `None` (default) where it is no feature.
    """

    type = "time"

    feature: Kind | None = None

    def check(self, column: "pd.Series[Any]", file: object) -> Any:
        times = parse_times(column, file)
        return (
            times if self.feature is None else self.feature.check(column, file)
        )

    def unified(
        self, columns: Sequence["pd.Series[Any]"]
    ) -> Sequence["pd.Series[Any]"]:
        filled = [column for column in columns if len(column)]
        if not filled:
            return columns
        first, expected = filled[0], kind_of_times(filled[0])
        for column in filled:
            if (kind := kind_of_times(column)) != expected:
                raise DataError.at(
                    "'time'",
                    f"{expected} in all files, as in the first",
                    kind,
                    column=column.name,
                )
        if self.feature is not None:
            return self.feature.unified(columns)
        # An empty column has no type of its own, and would spoil the others'.
        return [
            column if len(column) else column.astype(first.dtype)
            for column in columns
        ]
