from typing import Any

from recsys.features.feature import FittedFeature
from recsys.features.feature import check_numbered


class OneRow(FittedFeature):
    """A feature that is one row of a table of its own, such as an id."""

    num_rows: int

    def check_encoded(self, name: str, values: Any) -> None:
        super().check_encoded(name, values)
        check_numbered(name, values, 0, self.num_rows - 1)

    def width(self, dim: int) -> int:
        return dim

    def vectors(
        self,
        values: Any,
        rows: Any = None,
        layer: Any = None,
        query: Any = None,
    ) -> Any:
        return rows
