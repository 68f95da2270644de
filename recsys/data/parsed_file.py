from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from recsys.columns.kind import Kind
from recsys.data.columns import parse
from recsys.data.formats.arrow_table import read_arrow
from recsys.data.formats.table import to_frame
from recsys.data.whole_floats import warn_of_whole_floats


def read_parsed(file: Path, columns: Mapping[str, Kind]) -> pd.DataFrame:
    """Reads columns of a file, as `parse` returns them, and no others.

    Args:
        file: The file, as `read_table` takes it.
        columns: Names of the columns with what they mean, in order.

    Raises:
        DataError: The file is not what its suffix says, or a column or a
            value is missing or wrong.
    """
    table = read_arrow(file, columns=columns)
    warn_of_whole_floats(table.schema, columns, file)
    return parse(to_frame(table, file), columns, file)
