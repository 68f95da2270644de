import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from rich.progress import Progress

from recsys.data.formats.lines import CHUNK
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shown import shown
from recsys.features.id_positions import integers_among


def parse_sequences(
    text: bytes, file: Path, progress: Progress
) -> pd.DataFrame:
    r"""Parses the interactions of users, each line a user and its items.

    The published layouts are both read by the same rule: a line `user item
    item ...`, oldest first, has all items of a user; of lines `user item`,
    each goes on from the earlier ones of the same user.

    Args:
        text: The lines, fields between spaces or tabs, in UTF-8. Empty lines
            count nothing.
        file: Where the text comes from, for error messages.
        progress: Shows how many bytes are done.

    Returns:
        Columns user and item, an interaction a row: users in the order of
        their first line, the items of each oldest first. A column is `int64`
        where all its ids are integers as `recsys.features.id_values` has
        them, and texts otherwise.

    Raises:
        DataError: A line has a user and no item, an id is no UTF-8 text, or
            there is no line.

    Example:
    >>> silent = Progress(disable=True)
    >>> lines = b"ann 7 8\nbob 7\nann 9\n"
    >>> parse_sequences(lines, Path("log.txt"), silent).values.tolist()
    [['ann', 7], ['ann', 8], ['ann', 9], ['bob', 7]]
    """
    users: list[np.ndarray] = []
    items: list[np.ndarray] = []
    task = progress.add_task(f"Reading {file.name}", total=len(text))
    stream, line = io.BytesIO(text), 0
    while lines := stream.readlines(CHUNK):
        fields = [line.split() for line in lines]
        lengths = np.array([len(parts) for parts in fields])
        alone = np.flatnonzero(lengths == 1)
        if len(alone):
            raise DataError.at(
                file,
                "a user and at least one item",
                shown(fields[alone[0]][0].decode("latin-1")),
                line=line + int(alone[0]) + 1,
            )
        filled = [parts for parts in fields if parts]
        owners = pa.array([parts[0] for parts in filled], pa.binary())
        counts = np.maximum(lengths[lengths > 0] - 1, 0)
        repeats = np.repeat(np.arange(len(filled)), counts)
        users.append(owners.take(pa.array(repeats)).dictionary_encode())
        values = [item for parts in filled for item in parts[1:]]
        items.append(pa.array(values, pa.binary()).dictionary_encode())
        line += len(lines)
        progress.update(task, completed=stream.tell())
    if not sum(map(len, users)):
        raise DataError.at(file, "a line with a user and items", "none")
    codes, names = _coded(users, file)
    order = np.argsort(codes, kind="stable")
    item_codes, item_names = _coded(items, file)
    return pd.DataFrame(
        {"user": names[codes[order]], "item": item_names[item_codes[order]]}
    )


def _coded(
    parts: list[np.ndarray], file: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Returns numbers of ids, `(rows,)`, and the ids, the first one first."""
    column = pa.chunked_array(parts).unify_dictionaries()
    codes = np.concatenate(
        [chunk.indices.to_numpy() for chunk in column.chunks]
    )
    with reading(file, "ids in UTF-8", DataError):
        texts = column.chunk(0).dictionary.cast(pa.string()).to_pylist()
    ids = pd.Series(texts, dtype=object)
    are_integers, integers = integers_among(ids)
    return codes, integers if are_integers.all() else ids.to_numpy()
