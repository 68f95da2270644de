import math
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from recsys.data.formats.packed_file import open_packed
from recsys.errors import DataError
from recsys.errors.reading import check_fits

UNSIGNED_BYTES = 8  # The only type of value that the data sets use.


def read_idx(file: Path, rank: int) -> npt.NDArray[np.uint8]:
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
    with open_packed(file) as stream:
        shape = _read_shape(stream, rank, file)
        size = math.prod(shape)
        check_fits(size, file, DataError, f"an array {shape}")
        content = stream.read(size + 1)
    if len(content) != size:
        held = "more" if len(content) > size else f"{len(content):,} bytes"
        raise DataError.at(file, f"{size:,} bytes of an array {shape}", held)
    return np.frombuffer(content, np.uint8).reshape(shape)


def _read_shape(stream: IO[bytes], rank: int, file: Path) -> tuple[int, ...]:
    magic = bytes([0, 0, UNSIGNED_BYTES, rank])
    begin = stream.read(4)
    if begin != magic:
        raise DataError.at(
            file,
            f"an idx file of bytes with {rank} dimensions, which begins with "
            f"{magic.hex(' ')}",
            begin.hex(" ") or "an empty file",
        )
    sizes = stream.read(4 * rank)
    if len(sizes) != 4 * rank:
        raise DataError.at(
            file, f"{rank} dimensions of 4 bytes each", f"{len(sizes)} bytes"
        )
    return tuple(np.frombuffer(sizes, ">u4").tolist())
