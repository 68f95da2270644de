"""Ids that another program has written as floats."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from recsys.columns.kind import Kind
from recsys.data.formats.csv_file import has_whole_floats
from recsys.data.row_time import RowTime
from recsys.features.id_list import IdList
from recsys.features.one_id import OneId

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)


def warn_of_whole_floats(
    schema: "pa.Schema", columns: Mapping[str, Kind], file: object
) -> None:
    """Warns of columns of ids all of which are like `5.0` in a text file.

    pandas writes integers so that stand beside missing values, unless they
    are `Int64`. As ids they are texts, and none of them is the integer.

    Args:
        schema: The `pyarrow.Schema` of the file as it is read.
        columns: Names of columns with what they mean; others may be missing.
        file: The file.
    """
    for name, kind in columns.items():
        if isinstance(kind, RowTime):
            kind = kind.feature or kind
        is_id = isinstance(kind, OneId | IdList) and name in schema.names
        if is_id and has_whole_floats(schema.field(name)):
            _log.warning(
                "%s, column %r: the ids are texts such as '5.0', which are "
                "other ids than 5. If integers are meant, write them as such, "
                "in pandas after .astype('Int64').",
                file,
                name,
            )
