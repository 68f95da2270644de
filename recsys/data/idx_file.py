import math
from pathlib import Path
from typing import Any

import numpy as np

from recsys.data.error import DataError
from recsys.data.packed_file import read_packed

UNSIGNED_BYTES = 8  # The only type of value that the data sets use.


def read_idx(file: Path, rank: int) -> Any:
    """Reads an array of bytes in the idx format of the MNIST files.

    The format: two zero bytes, the type of the values, the number of
    dimensions, each dimension as a 32-bit big-endian integer, and the values
    in C order.

    Args:
        file: The file, packed if its name ends in `.gz`.
        rank: Number of dimensions that the array should have.

    Returns:
        A uint8 array.

    Raises:
        DataError: The file is of another format or rank, or too short or
            long for what it says it holds.

    References:
        LeCun, Cortes, Burges. The MNIST database of handwritten digits,
        section "File formats for the MNIST database".
    """
    content = read_packed(file)
    magic = bytes([0, 0, UNSIGNED_BYTES, rank])
    if content[:4] != magic:
        raise DataError.at(
            file,
            f"an idx file of bytes with {rank} dimensions, which begins with "
            f"{magic.hex(' ')}",
            content[:4].hex(" ") or "an empty file",
        )
    start = 4 + 4 * rank
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    size = math.prod(shape)
    if len(shape) != rank or len(content) - start != size:
        raise DataError.at(
            file,
            f"{size} bytes of an array {tuple(shape)}",
            f"{max(0, len(content) - start)} bytes",
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
