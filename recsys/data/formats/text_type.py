import pyarrow as pa
from pyarrow import compute

from recsys.data.formats.exact_values import cast_or_none

_WHOLE_FLOATS = r"^-?\d+\.0+(\|-?\d+\.0+)*$"


class TextType:
    """Finds the type of a column's texts, integer or string, part by part.

    Integers are texts that an integer is written back as. All others are
    strings, `007`, `7.0`, `1e5` and `true` among them. The division into parts
    does not matter: the type is that of all of them.

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
            matches = compute.match_substring_regex(texts, _WHOLE_FLOATS)
            self._whole_floats = compute.all(matches, min_count=0).as_py()

    @property
    def type(self) -> pa.DataType:
        """The Arrow type; the texts of all parts can be cast to it."""
        return pa.int64() if self._integers else pa.string()

    @property
    def whole_floats(self) -> bool:
        """True if all are integers written as floats, `5.0`, or lists of them.

        A program whose integers cannot be missing writes them so.
        """
        return self._whole_floats and not self._integers
