from collections.abc import Sequence
from typing import TYPE_CHECKING

from recsys.columns.kind import Kind
from recsys.data.times import kind_of_times
from recsys.data.times import parse_times
from recsys.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


class RowTime(Kind):
    """Time of a row; none is missing.

    Attributes:
        feature: The feature that the column is as well, whose form it then
            keeps. `None` (default) if it is no feature.
    """

    type = "time"

    feature: Kind | None = None

    def check(self, column: "pd.Series", file: object) -> "pd.Series":
        times = parse_times(column, file)
        return (
            times if self.feature is None else self.feature.check(column, file)
        )

    def check_alike(
        self, columns: Sequence["pd.Series"], files: Sequence[object]
    ) -> None:
        kinds = [
            (kind_of_times(column), file, column.name)
            for column, file in zip(columns, files, strict=True)
            if len(column)
        ]
        for kind, file, name in kinds:
            expected, first, _ = kinds[0]
            if kind != expected:
                raise DataError.at(
                    file,
                    f"times that are {expected}, as in {first}",
                    kind,
                    column=name,
                )

    def unified(self, columns: Sequence["pd.Series"]) -> Sequence["pd.Series"]:
        if self.feature is not None:
            return self.feature.unified(columns)
        filled = [column for column in columns if len(column)]
        if not filled:
            return columns
        # An empty column has no type of its own, and would spoil the others'.
        return [
            column if len(column) else column.astype(filled[0].dtype)
            for column in columns
        ]
