"""The tables of a run folder that have rows for each epoch."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data import DataError
from recsys.data import read_table
from recsys.data.columns import parse
from recsys.data.dataset import check_rows
from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.shown import shown
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Number

_COUNTED = ("epoch", "expert")


def read_history(file: Path) -> pd.DataFrame:
    """Reads `history.csv`, a row for each epoch.

    Args:
        file: The file.

    Returns:
        Numbers; those of the columns epoch, val_loss and seconds are there.

    Raises:
        DataError: The file is missing, or no such table.
    """
    needed = dict.fromkeys(("epoch", "val_loss", "seconds"), Number())
    return _read(file, needed).astype({"epoch": np.int64})


def read_weights(file: Path) -> pd.DataFrame:
    """Reads `weights.csv`, the weight of each expert by epoch and task.

    Args:
        file: The file.

    Returns:
        The columns epoch, task, expert and weight, each expert once.

    Raises:
        DataError: The file is missing, or no such table.
    """
    kinds = {"epoch": Number(), "task": Id(), "expert": Number()}
    table = _read(file, {**kinds, "weight": Number()})[[*kinds, "weight"]]
    twice = np.flatnonzero(table.duplicated(list(kinds)))
    if len(twice):
        raise DataError.at(
            file,
            "each expert once in an epoch of a task",
            f"{table.iloc[twice[0]].to_dict()} again",
            row=int(twice[0]) + 1,
        )
    return table.astype(
        {
            "epoch": np.int64,
            "task": str,  # It may be named by a number.
            "expert": np.int64,
            "weight": np.float32,
        }
    )


def _read(file: Path, kinds: Mapping[str, Feature]) -> pd.DataFrame:
    """Reads a CSV file of numbers, but for the columns of another kind."""
    table = read_table(file)
    numbers = {name: Number() for name in map(str, table) if name not in kinds}
    rows = parse(table, {**kinds, **numbers}, file)
    check_rows(rows, file)
    for name in kinds:
        counted = name in _COUNTED
        bad = rows[name].isna()
        if counted:
            bad |= (rows[name] % 1 != 0) | ~rows[name].between(0, LARGEST_COUNT)
        where = np.flatnonzero(bad)
        if len(where):
            raise DataError.at(
                file,
                "a count" if counted else "a value",
                shown(rows[name].iloc[where[0]]),
                column=name,
                row=int(where[0]) + 1,
            )
    return rows
