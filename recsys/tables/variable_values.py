"""Values of variables whose rows may be split, as if they were not."""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys.files.atomic import UNFINISHED
from recsys.files.npz_file import RowBlocks
from recsys.private_names import gather_all
from recsys.private_names import wait_for_all
from recsys.tables.marks import mark
from recsys.tables.marks import marks
from recsys.tables.row_lookups import backend_rows
from recsys.tables.row_split import Shape

if TYPE_CHECKING:
    pass


def spans_processes(variable: Any) -> bool:
    """Returns whether no process has all values of a variable."""
    split = marks(variable).split
    if split is not None:
        return split.spans_processes
    # Of experts that devices divide, JAX knows it.
    value = variable.value
    return not (
        getattr(value, "is_fully_addressable", True)
        or value.is_fully_replicated
    )


def shape_of(variable: keras.Variable) -> Shape:
    """Returns the shape of a variable, without padding."""
    split = marks(variable).split
    shape = tuple(variable.shape)
    return shape if split is None else (split.num_rows, *shape[1:])


def assign(variable: keras.Variable, value: np.ndarray) -> None:
    """Gives a variable a value, which has no padding.

    Args:
        variable: A variable.
        value: What it is assigned, of the shape `shape_of(variable)`.

    Raises:
        ValueError: The value has another shape.
    """
    split = marks(variable).split
    if split is not None and tuple(value.shape) == shape_of(variable):
        value = split.place(value)
    variable.assign(value)


_BYTES_AT_ONCE = 1 << 26


def variable_values(variable: keras.Variable) -> Any:
    """Returns the values of a variable, in blocks of rows if there are many.

    TensorFlow takes the memory of a table that is trained by rows twice to
    return all of it at once. Of a table that is split over the devices of
    several processes, all of them have to read all blocks together, outside of
    `readable_by_first`.

    Args:
        variable: A variable with a value.

    Returns:
        An array, or `RowBlocks`.
    """
    shape, dtype = shape_of(variable), np.dtype(variable.dtype)
    if marks(variable).split is not None:
        return RowBlocks(shape, dtype, partial(_blocks, variable))
    if not shape or shape[0] <= _rows_at_once(variable):
        return variable.numpy()

    def blocks() -> Iterator[np.ndarray]:
        size = _rows_at_once(variable)
        for start in range(0, shape[0], size):
            rows = ops.arange(start, min(start + size, shape[0]))
            yield ops.convert_to_numpy(backend_rows.read(variable, rows))

    return RowBlocks(shape, dtype, blocks)


@contextmanager
def readable_by_first(
    variables: Iterable[keras.Variable], folder: Path
) -> Iterator[None]:
    """Lets the first process alone read the values of variables.

    All processes have to enter and to leave together. Meanwhile, tables that
    are split over them are in temporary files of the first one, for
    `variable_values` to read, and other variables in memory.

    Args:
        variables: The variables, in the same order in all processes.
        folder: Where the files are to be.
    """
    spanning = [variable for variable in variables if spans_processes(variable)]
    if not spanning:
        yield
        return
    import jax

    tables = [
        variable for variable in spanning if marks(variable).split is not None
    ]
    whole = [
        (variable, gather_all(variable.value))
        for variable in spanning
        if marks(variable).split is None
    ]
    with keras.StatelessScope(whole):
        if jax.process_index():
            for table in tables:
                for _ in _gathered(table):
                    pass  # The first process needs this one's rows.
            yield
        else:
            with _in_files(tables, folder):
                yield
    wait_for_all("read by the first process")


@contextmanager
def _in_files(tables: Sequence[keras.Variable], folder: Path) -> Iterator[None]:
    """Has all rows of tables in files, from which `variable_values` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=UNFINISHED, dir=folder) as temporary:
        for number, table in enumerate(tables):
            file = Path(temporary) / f"{number}.npy"
            mark(table, gathered_rows=_in_file(table, file))
        try:
            yield
        finally:
            for table in tables:
                mark(table, gathered_rows=None)


def _in_file(variable: keras.Variable, file: Path) -> np.ndarray:
    """Writes all rows of a variable; returns them as they are in the file."""
    rows = np.lib.format.open_memmap(
        file, "w+", np.dtype(variable.dtype), shape_of(variable)
    )
    start = 0
    for block in _gathered(variable):
        rows[start : start + len(block)] = block
        start += len(block)
    rows.flush()
    return np.load(file, mmap_mode="r")


def _blocks(variable: keras.Variable) -> Iterator[np.ndarray]:
    """The rows of a variable that is split, without padding."""
    rows = marks(variable).gathered_rows
    if rows is not None:
        size = _rows_at_once(variable)
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
    elif spans_processes(variable):
        yield from _gathered(variable)
    else:
        yield from _own_rows(variable)


def _own_rows(variable: keras.Variable) -> Iterator[np.ndarray]:
    """The rows of a variable whose devices are all of this process."""
    num_rows, size = shape_of(variable)[0], _rows_at_once(variable)
    shares = {
        shard.index[0].start or 0: shard.data
        for shard in variable.value.addressable_shards
    }
    for first in sorted(shares):
        share = shares[first][: max(0, num_rows - first)]
        for start in range(0, len(share), size):
            yield np.asarray(share[start : start + size])


def _gathered(variable: keras.Variable) -> Iterator[np.ndarray]:
    """The rows of all processes, which have to iterate together."""
    from recsys.tables.jax_split import read_share

    split = marks(variable).split
    assert split is not None, "asked for of what is split alone"
    share = split.padded_rows // split.num_devices
    size = min(share, _rows_at_once(variable))
    for device in range(split.num_devices):
        rows = min(share, split.num_rows - device * share)
        for start in range(0, rows, size):
            # The last block has as many rows as the others, to be compiled
            # once: those before it are read again.
            first = min(start, share - size)
            block = read_share(variable.value, device, first, size, split)
            yield np.asarray(block)[start - first : rows - first]


def _rows_at_once(variable: keras.Variable) -> int:
    row_bytes = prod(variable.shape[1:]) * np.dtype(variable.dtype).itemsize
    return max(1, _BYTES_AT_ONCE // max(1, row_bytes))
