import pyarrow as pa
from pyarrow import compute

from recsys.data.formats.exact_values import cast_or_none

_WHOLE_FLOATS = r"^-?\d+\.0+(\|-?\d+\.0+)*$"


class TextType:
    """Whether a column's texts, seen in parts, are integers.

    They are where each of them is what an integer is written as, and can be
    written as it stands again. All else is texts: `007` and `7.0` are, and so
    are `1e5` and `true`. Parts may come in any division: the type is that of
    all of them.

    Example:
    >>> column = TextType()
    >>> column.add(pa.array(["1", "2", None]))
    >>> column.type
    DataType(int64)
    >>> column.add(pa.array(["0.5"]))
    >>> column.type
    DataType(string)
    """

    def __init__(self) -> None:
        self._integers = self._whole_floats = True

    def add(self, texts: pa.Array) -> None:
        """Looks at further texts.

        Args:
            texts: Arrow array of texts, null where missing.
        """
        if self._integers:
            integers = cast_or_none(texts, pa.int64())
            self._integers = integers is not None and integers.cast(
                pa.string()
            ).equals(texts)
        if self._whole_floats:
            found = compute.match_substring_regex(texts, _WHOLE_FLOATS)
            self._whole_floats = compute.all(found, min_count=0).as_py()

    @property
    def type(self) -> pa.DataType:
        """The Arrow type; the texts of all parts can be cast to it."""
        return pa.int64() if self._integers else pa.string()

    @property
    def whole_floats(self) -> bool:
        """Whether all are integers written as floats, `5.0`, or lists of such.

        That is what a program writes that has no integers beside missing ones.
        """
        return self._whole_floats and not self._integers
