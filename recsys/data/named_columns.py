from collections.abc import Mapping
from collections.abc import Sequence
from fnmatch import fnmatchcase

from recsys.errors import DataError

_EXCLUDED = "excluded"


def named_columns(
    columns: Sequence[str],
    wanted: Mapping[str, Sequence[str]],
    file: object,
    exclude: Sequence[str] = (),
) -> dict[str, str]:
    """Finds the columns that names and patterns stand for.

    Args:
        columns: Names of the columns that there are.
        wanted: For each type, names of columns or patterns of names (`*` any
            characters, `?` one, `[0-9]` one of these). A column that is
            named goes by its name; patterns do not take it.
        file: Where the columns come from, for the error message.
        exclude: Names or patterns of columns that no pattern takes.

    Returns:
        The columns that are wanted with their types, in the given order.

    Raises:
        DataError: Nothing has a name or matches a pattern, or a column would
            have two types.

    Example:
    >>> wanted = {"id": ["*"], "number": ["D*"], "binary": ["click"]}
    >>> named_columns(["click", "101", "D508"], wanted, "log.csv")
    Traceback (most recent call last):
    ...
    recsys.errors.DataError: log.csv, column 'D508': expected one type. \
Received: id and number
    >>> named_columns(["click", "101"], {**wanted, "number": []}, "log.csv")
    {'click': 'binary', '101': 'id'}
    >>> named_columns(["click", "101"], {"id": ["*"]}, "log.csv", ["cl*"])
    {'101': 'id'}
    """
    by_name: dict[str, list[str]] = {column: [] for column in columns}
    by_pattern: dict[str, list[str]] = {column: [] for column in columns}
    for kind, names in (*wanted.items(), (_EXCLUDED, exclude)):
        for name in names:
            if name in by_name:
                by_name[name].append(kind)
                continue
            matching = [
                column for column in columns if fnmatchcase(column, name)
            ]
            if not matching:
                raise DataError.at(
                    file, f"a column {name!r}", f"the columns {list(columns)}"
                )
            for column in matching:
                by_pattern[column].append(kind)
    types = {}
    for column in columns:
        kinds = sorted(set(by_name[column] or by_pattern[column]))
        if not by_name[column] and _EXCLUDED in kinds:
            kinds = []
        if len(kinds) > 1:
            raise DataError.at(
                file, "one type", " and ".join(kinds), column=column
            )
        if kinds and kinds != [_EXCLUDED]:
            types[column] = kinds[0]
    return types
