import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recsys.data.error import DataError
from recsys.data.error import shown


def read_npz(file: Path, names: Sequence[str]) -> dict[str, Any]:
    """Reads arrays of a NumPy `.npz` file.

    Args:
        file: The file.
        names: Names of the wanted arrays.

    Returns:
        The arrays by name, in the given order.

    Raises:
        DataError: The file or an array is missing or broken.
    """
    if not file.is_file():
        raise DataError.at(file, "a file", "none of that name")
    try:
        # NumPy leaves a broken file open that it has opened itself. A file
        # with a single array comes as that array, which is no context manager.
        with file.open("rb") as stream, np.load(stream) as arrays:
            missing = [name for name in names if name not in arrays.files]
            found = list(arrays.files)
            read = {} if missing else {name: arrays[name] for name in names}
    except (
        ValueError,
        TypeError,
        EOFError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataError.at(file, "a NumPy .npz file", str(error)) from error
    if missing:
        raise DataError.at(
            file, f"an array {missing[0]!r}", f"the arrays {shown(found)}"
        )
    return read
