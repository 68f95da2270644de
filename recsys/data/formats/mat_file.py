import math
import struct
import zlib
from collections.abc import Iterator
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import IO
from typing import Any

import numpy as np

from recsys.errors import DataError
from recsys.errors.reading import check_fits
from recsys.errors.reading import reading
from recsys.errors.reading import while_it_fits
from recsys.errors.shown import shown

HEADER = 128  # Bytes; the last two say the order of all others.
CHUNK = 1 << 20  # bytes unpacked at a time
_MATRIX, _COMPRESSED = 14, 15
# How values are stored, and what an array of them is: the format's numbers.
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4",
           9: "f8", 12: "i8", 13: "u8"}  # fmt: skip
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4",
            13: "u4", 14: "i8", 15: "u8"}  # fmt: skip
_COMPLEX = 0x0800


def read_mat(file: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads arrays of numbers of a MATLAB file, version 5 to 7.

    SciPy's reader takes the types that a broken file names for true, and
    reads beyond its tables: the process crashes.

    Args:
        file: The file.
        names: Names of the wanted arrays.

    Returns:
        The arrays by name.

    Raises:
        DataError: The file or an array is missing or broken, or an array is
            not one of real numbers.

    References:
        The MathWorks. MAT-File Format.
    """
    held: dict[str, np.ndarray | None] = {}
    with reading(file, "a MATLAB file", DataError), file.open("rb") as stream:
        order = {b"IM": "<", b"MI": ">"}[stream.read(HEADER)[-2:]]
        for content in _matrices(stream, order, file):
            name, array = _parse(content, order, names, file)
            held[name] = array
    for name in names:
        if name not in held:
            raise DataError.at(file, f"an array {name!r}", shown([*held]))
    arrays = {name: held[name] for name in names}
    read = {name: x for name, x in arrays.items() if x is not None}
    for name in names:
        if name not in read:
            raise DataError.at(
                file, "an array of real numbers", "another one", column=name
            )
    return read


def _matrices(
    stream: IO[bytes], order: str, file: Path
) -> Iterator[memoryview]:
    """Yields what is in each element of the file that is an array."""
    while tag := stream.read(8):
        kind, size = struct.unpack(f"{order}II", tag)
        content = _exactly(stream.read(size), size)
        if kind == _COMPRESSED:
            with_tag = memoryview(_unpacked(content, file))
            kind, size = struct.unpack(f"{order}II", with_tag[:8])
            content = _exactly(with_tag[8:], size)
        if kind == _MATRIX:
            yield memoryview(content)


def _unpacked(content: bytes | memoryview, file: Path) -> bytes:
    unpacker = zlib.decompressobj()
    first = unpacker.decompress(content, CHUNK)

    def following() -> bytes:
        return unpacker.decompress(unpacker.unconsumed_tail, CHUNK)

    chunks = chain([first], iter(following, b""))
    held = while_it_fits(chunks, len, file, DataError)
    return b"".join(held)


def _parse(
    content: memoryview, order: str, names: Sequence[str], file: Path
) -> tuple[str, np.ndarray | None]:
    """Returns name and values of an array; no values where they are others."""
    parts = _elements(content, order)
    (_, flags), (_, sizes), (_, text) = next(parts), next(parts), next(parts)
    name = bytes(text).decode("latin-1")
    shape = tuple(np.frombuffer(sizes, f"{order}i4").tolist())
    (flag,) = struct.unpack(f"{order}I", flags[:4])
    kind = _CLASSES.get(flag & 0xFF)
    if name not in names or kind is None or flag & _COMPLEX:
        return name, None
    stored, values = next(parts)
    array = np.frombuffer(values, order + _STORED[stored])
    if array.size != math.prod(shape):
        raise EOFError
    check_fits(array.size * np.dtype(kind).itemsize, file, DataError, name)
    return name, array.astype(kind, copy=False).reshape(shape, order="F")


def _elements(
    content: memoryview, order: str
) -> Iterator[tuple[int, memoryview]]:
    """Yields type and bytes of each element of an array."""
    while len(content):
        kind, size = struct.unpack(f"{order}II", content[:8])
        if kind >> 16:  # At most four bytes, within the tag.
            kind, size = kind & 0xFFFF, kind >> 16
            yield kind, _exactly(content[4 : 4 + min(size, 4)], size)
            content = content[8:]
        else:
            yield kind, _exactly(content[8 : 8 + size], size)
            content = content[8 + -(-size // 8) * 8 :]


def _exactly(content: Any, size: int) -> Any:
    if len(content) != size:
        raise EOFError
    return content
