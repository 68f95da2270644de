from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data.formats.table import read_table
from recsys.data.formats.table import write_table
from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.features.id_values import as_ids

_EXPECTED = "a NumPy array of numbers"


class ArrayFolder:
    """A folder of arrays and of ids, a file each.

    Arrays are read as they are needed: those of a large model need not fit
    into memory.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes arrays of numbers by name, `NAME.npy` each."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, array in arrays.items():
            np.save(self.folder / f"{name}.npy", array, allow_pickle=False)

    def read(self, name: str, *shape: int | None) -> np.ndarray:
        """Returns an array.

        Args:
            name: Its name.
            *shape: How long it must be along each axis; `None` for any
                length.

        Raises:
            FileError: There is no such file, or it holds something else.
        """
        file = self.folder / f"{name}.npy"
        with reading(file, _EXPECTED):
            array: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        fits = len(array.shape) == len(shape) and all(
            length in (None, size)
            for length, size in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind not in "iuf" or not fits:
            wanted = ", ".join("any" if n is None else f"{n}" for n in shape)
            raise FileError.at(
                file,
                f"{_EXPECTED} of shape ({wanted})",
                f"one of type {array.dtype} and shape {array.shape}",
            )
        return array

    def write_ids(self, name: str, ids: pd.Index) -> None:
        """Writes ids, exactly as they are, to `NAME.parquet`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame({"id": pd.Series(ids)})
        write_table(frame, self.folder / f"{name}.parquet")

    def read_ids(self, name: str) -> pd.Index:
        """Returns ids, each once.

        Raises:
            FileError: There is no such file, or it holds something else.
        """
        file = self.folder / f"{name}.parquet"
        table = read_table(file)
        if [*table.columns] != ["id"]:
            raise FileError.at(file, "a column 'id'", f"{[*table.columns]}")
        ids = as_ids(table["id"], file)
        if ids.isna().any() or ids.duplicated().any():
            raise FileError.at(file, "different ids", "missing or repeated ids")
        return pd.Index(ids)
