"""Marks of the variables of tables and of their slots.

An optimizer, a checkpoint or a lookup is given variables, and never the layers
that they are of.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace
from typing import Any

from recsys.tables.row_split import RowSplit


@dataclass(frozen=True, eq=False)
class Marks:
    """Attributes of a variable; most are no table and have the defaults.

    Attributes:
        is_table: Whether it is the table of a `TableEmbedding`.
        trained_by_rows: Whether it is a table that a `TableOptimizer` trains
            by rows.
        split: How its rows are split over devices, of a table or a slot;
            `None` where each device has all of them.
        gathered_rows: All rows of a split variable as they are in a file, an
            array, while one process alone reads them; `None` otherwise.
    """

    is_table: bool = False
    trained_by_rows: bool = False
    split: RowSplit | None = None
    gathered_rows: Any = None


_ATTRIBUTE = "recsys_table_marks"
_UNMARKED = Marks()


def marks(variable: Any) -> Marks:
    """Returns the marks of a variable.

    Args:
        variable: A variable of any model, optimizer or metric.

    Example:
    >>> import keras
    >>> variable = keras.Variable([[1.0]])
    >>> mark(variable, is_table=True)
    >>> marks(variable).is_table, marks(variable).trained_by_rows
    (True, False)
    """
    held: Marks = getattr(variable, _ATTRIBUTE, _UNMARKED)
    return held


def mark(variable: Any, **changed: Any) -> None:
    """Changes marks of a variable; it keeps its others.

    Args:
        variable: The variable.
        **changed: Fields of `Marks`.

    Raises:
        TypeError: There is no such mark.
    """
    setattr(variable, _ATTRIBUTE, replace(marks(variable), **changed))


def by_rows(variables: Iterable[Any]) -> list[bool]:
    """Returns which variables are tables that are trained by rows.

    Args:
        variables: The variables, such as all that an optimizer trains.
    """
    return [marks(variable).trained_by_rows for variable in variables]
