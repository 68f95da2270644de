import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from recsys.errors import DataError
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.files.zip_member import open_member


@dataclass(frozen=True)
class RowBlocks:
    """An array that is made a block of rows at a time.

    Attributes:
        shape: Its shape.
        dtype: Its dtype.
        blocks: Returns the blocks, arrays `(rows, *shape[1:])`, in order.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[np.ndarray]]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray:
        """Returns the whole array, called by NumPy."""
        whole = np.empty(self.shape, dtype or self.dtype)
        start = 0
        for block in self.blocks():
            whole[start : start + len(block)] = block
            start += len(block)
        return whole


_READ_HEADER: dict[
    tuple[int, int],
    Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype]],
] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(
    file: Path,
    names: Sequence[str] | None = None,
    error: type[FileError] = DataError,
) -> dict[str, np.ndarray]:
    """Reads arrays of a NumPy `.npz` file.

    Args:
        file: The file.
        names: Names of the wanted arrays; all of them unless given.
        error: The class of the error. Defaults to `DataError`.

    Returns:
        The arrays by name, in the given order.

    Raises:
        DataError: The file or an array is missing or broken.
    """
    if not file.is_file():
        raise error.at(file, "a file", "none of that name")
    with (
        reading(file, "a NumPy .npz file", error),
        ZipFile(file) as archive,
    ):
        members = archive.namelist()
        held_names = [member.removesuffix(".npy") for member in members]
        for name in names or ():
            if name not in held_names:
                raise error.at(
                    file,
                    f"an array {name!r}",
                    f"the arrays {shown(held_names)}",
                )
        return {
            name: _read_array(
                archive, members[held_names.index(name)], file, error
            )
            for name in (held_names if names is None else names)
        }


def npz_names(file: Path) -> list[str]:
    """Returns the names of the arrays of a NumPy `.npz` file.

    Args:
        file: An existing file.

    Raises:
        DataError: The file is broken.
    """
    with reading(file, "a NumPy .npz file", DataError), ZipFile(file) as held:
        return [member.removesuffix(".npy") for member in held.namelist()]


def write_npz(
    file: Path,
    arrays: Mapping[str, np.ndarray | RowBlocks]
    | Iterable[tuple[str, np.ndarray | RowBlocks]],
) -> None:
    """Writes arrays as a NumPy `.npz` file, whatever they are called.

    `numpy.savez` takes an array of the name `file` for another argument.

    Args:
        file: The file to write.
        arrays: The arrays by name, or pairs of a name and an array, of which
            one at a time is held; of `RowBlocks`, one block.
    """
    pairs = arrays.items() if isinstance(arrays, Mapping) else arrays
    with ZipFile(file, "w") as archive:
        for name, array in pairs:
            # Its size is not known before it is written.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                _write_array(stream, array)
            del array  # Before the next one is made.


def _write_array(stream: IO[bytes], array: np.ndarray | RowBlocks) -> None:
    """Writes an array in the form of a `.npy` file."""
    if not isinstance(array, RowBlocks):
        np.lib.format.write_array(stream, array, allow_pickle=False)
        return
    header = {
        "descr": np.lib.format.dtype_to_descr(array.dtype),
        "fortran_order": False,
        "shape": array.shape,
    }
    np.lib.format.write_array_header_1_0(stream, header)
    for block in array.blocks():
        stream.write(np.ascontiguousarray(block).data)


def _read_array(
    archive: ZipFile, member: str, file: Path, error: type[FileError]
) -> np.ndarray:
    """Reads an array that is as large as its header says, and no larger."""
    with open_member(archive, member, file, error) as stream:
        version = np.lib.format.read_magic(stream)
        shape, _, dtype = _READ_HEADER[version](stream)
        held = archive.getinfo(member).file_size - stream.tell()
    if math.prod(shape) * dtype.itemsize != held:
        raise error.at(
            file,
            f"the {held:,} bytes of {member!r} to be an array",
            f"a header of {dtype} {shape}",
        )
    with archive.open(member) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
