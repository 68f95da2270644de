"""Features that a table to be predicted does not have."""

import warnings
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Sequence

import pandas as pd

from recsys.errors import DataError
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown


def left_out(
    columns: Collection[str],
    features: Sequence[str],
    file: object,
    also: Iterable[str] = (),
    stacklevel: int = 2,
) -> list[str]:
    """Finds the features that a table leaves out, and warns of them.

    They are missing in every row, as in a request without them. A column with
    almost the name of such a feature is taken for a typing error, and so is a
    table without any feature.

    Args:
        columns: Names of the columns that are there.
        features: Names of the features.
        file: Where the table comes from, for the error message.
        also: Names that further columns are known to have, such as tasks,
            which are no slips however near they are.
        stacklevel: As in `warnings.warn`. Defaults to 2, the caller.

    Returns:
        Their names, in the order of the features.

    Raises:
        DataError: No feature is there, or a column has nearly the name of one
            that is not.

    Example:
    >>> left_out(["user", "age"], ["user", "age"], "new.csv")
    []
    >>> left_out(["User", "age"], ["user", "age"], "new.csv")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: new.csv: expected a column 'user' (did you mean \
'User'?), or an empty one to leave it out. Received: the columns ['User', 'age']
    """
    missing = [name for name in features if name not in columns]
    known = {*features, *also}
    unused = [str(column) for column in columns if column not in known]
    for name in missing:
        if hint := did_you_mean(name, unused):
            raise DataError.at(
                file,
                f"a column {name!r}{hint}, or an empty one to leave it out",
                f"the columns {shown(list(columns))}",
            )
    if len(missing) == len(features):
        raise DataError.at(
            file,
            f"columns among the features {shown(list(features))}",
            f"the columns {shown(list(columns))}",
        )
    if missing:
        names = ", ".join(map(repr, missing))
        warnings.warn(
            f"{file} leaves out {names}: missing in every row",
            stacklevel=stacklevel + 1,
        )
    return missing


def with_missing(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Returns a table with further columns, in which all is missing.

    Args:
        frame: The table.
        names: Names of the columns, which it does not have.

    Example:
    >>> with_missing(pd.DataFrame({"user": [7]}), ["self"])
       user  self
    0     7  None
    """
    frame = frame.copy(deep=False)
    for name in names:
        frame[name] = None
    return frame
