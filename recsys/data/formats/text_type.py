from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

from recsys.column_values import LARGEST_EXACT


class TextType:
    """The first type that loses nothing of a column's texts, seen in parts.

    The types are integer, float, truth value and text. Texts that are written
    as integers are not, such as `007`, stay text, as do numbers too large for
    a float. Parts may come in any division: the type is that of all of them.

    Example:
    >>> column = TextType()
    >>> column.add(pa.array(["1", "2"]))
    >>> column.type
    DataType(int64)
    >>> column.add(pa.array(["0.5", None]))
    >>> column.type
    DataType(double)
    """

    def __init__(self) -> None:
        self._integers = self._canonical = True
        self._floats = self._exact = True
        self._booleans = True

    def add(self, texts: Any) -> None:
        """Looks at further texts.

        Args:
            texts: Arrow array of texts, null where missing.
        """
        integers = cast_or_none(texts, pa.int64()) if self._integers else None
        self._integers = integers is not None
        if integers is not None and self._canonical:
            self._canonical = integers.cast(pa.string()).equals(texts)
        if self._floats:
            self._look_at_floats(texts, integers)
        if self._booleans:
            self._booleans = cast_or_none(texts, pa.bool_()) is not None

    @property
    def type(self) -> Any:
        """The Arrow type; the texts of all parts can be cast to it."""
        if self._integers:
            return pa.int64() if self._canonical else pa.string()
        if self._floats:
            return pa.float64() if self._exact else pa.string()
        return pa.bool_() if self._booleans else pa.string()

    def _look_at_floats(self, texts: Any, integers: Any) -> None:
        if integers is None:
            floats = cast_or_none(texts, pa.float64())
        else:
            floats = integers.cast(pa.float64(), safe=False)
        self._floats = floats is not None
        if self._floats and self._exact:
            sizes = np.abs(compute.drop_null(floats).to_numpy())
            rounded = (sizes > LARGEST_EXACT) & (sizes < np.inf)
            self._exact = not rounded.any()


def cast_or_none(column: Any, kind: Any) -> Any:
    """Returns an Arrow column as another type, `None` where it does not fit."""
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        return None
