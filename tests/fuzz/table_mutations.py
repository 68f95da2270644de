"""Mutations of tables and matrices in binary form."""

import io
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.io
from pyarrow import parquet

from tests.fuzz import byte_mutations
from tests.fuzz import values


def _texts(count: int, random: Random) -> Any:
    texts = [values.text(random) for _ in range(count)]
    return pa.array(texts[:count], pa.string())


def _broken_texts(count: int, random: Random) -> Any:
    offsets = np.arange(count + 1, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _numbers(count: int, random: Random) -> Any:
    numbers = random.choice((3e38, 1e300, float("inf"), float("nan"), -1.5))
    return pa.array([numbers] * count)


_COLUMNS: list[Callable[[int, Random], Any]] = [
    _texts,
    _broken_texts,
    _numbers,
    lambda count, _: pa.nulls(count),
    lambda count, _: pa.array([2**64 - 1] * count, pa.uint64()),
    lambda count, _: pa.array([[1, 2]] * count),
    lambda count, _: pa.array([{"a": 1}] * count),
    lambda count, _: pa.array([[("a", 1)]] * count, pa.map_("str", "int8")),
    lambda count, _: pa.array([b"\xff"] * count),
    lambda count, _: pa.array([True] * count),
    lambda count, _: pa.array([2**50] * count, pa.timestamp("s")),
    lambda count, _: pa.array([2**62] * count, pa.duration("ns")),
    lambda count, _: pa.array([3] * count, pa.date32()),
    lambda count, _: pa.array([1] * count).cast(pa.decimal128(38, 10)),
    lambda count, _: pa.array([1.5] * count, pa.float16()),
    lambda count, _: pa.array(["a"] * count).dictionary_encode(),
    lambda count, _: pa.array([1] * count, pa.time64("us")),
]


def mutate_parquet(content: bytes, random: Random) -> bytes:
    """Changes a column of a Parquet file, or its bytes."""
    if random.random() < 0.4:
        return byte_mutations.mutate(content, random)
    table = parquet.read_table(io.BytesIO(content))
    place = random.randrange(table.num_columns)
    name = table.column_names[place]
    what = random.randrange(8)
    if what == 0:
        table = table.drop_columns([name])
    elif what == 1:
        table = table.rename_columns({name: values.text(random)})
    elif what == 2:
        table = table.append_column(name, table[name])
    elif what == 3:
        table = table.slice(0, random.choice((0, 1, 2)))
    else:
        column = random.choice(_COLUMNS)(table.num_rows, random)
        table = table.set_column(place, name, column)
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def mutate_mat(content: bytes, random: Random) -> bytes:
    """Changes an array of a MATLAB file, or the file's bytes."""
    if random.random() < 0.6:
        return byte_mutations.mutate(content, random)
    arrays = scipy.io.loadmat(io.BytesIO(content))
    held = {name: x for name, x in arrays.items() if not name.startswith("_")}
    name = random.choice(list(held))
    array = held.pop(name)
    changed: list[Any] = [
        array[..., :0],
        array[:1],
        array.astype(np.float64),
        array.astype(str),
        array[None],
        {"a": array},
        [array, "a"],
        scipy.sparse.csc_matrix((3, 3)),
        np.full(array.shape, 255, np.uint8),
        np.full((2, 2), "a", object),
        "text",
    ]
    if random.random() < 0.9:
        held[name] = random.choice(changed)
    file = io.BytesIO()
    scipy.io.savemat(file, held, do_compression=random.random() < 0.5)
    return file.getvalue()
