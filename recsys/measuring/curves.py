"""The tables of a run folder that have rows for each epoch."""

import math
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
from recsys.files.json_files import JsonMapping

_COUNTED = ("epoch", "expert")
UNTIL_BINARY = "steps_until_binary"


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


def until_binary(history: pd.DataFrame) -> dict[str, int | None]:
    """Returns what a history says of the way to binary selectors.

    `StepsUntilBinary` says how fine the steps are.

    Args:
        history: What `read_history` returns.

    Returns:
        "training_steps" and "steps_until_binary", `None` where a selector was
        not binary in the end; nothing of gates without selectors.

    Example:
    >>> epochs = {"steps": [10.0, 20.0], "steps_until_binary": [None, 15.0]}
    >>> until_binary(pd.DataFrame(epochs))
    {'training_steps': 20, 'steps_until_binary': 15}
    """
    if "steps" not in history:
        return {}
    last = history.iloc[-1]
    since = last.get(UNTIL_BINARY, math.nan)
    return {
        "training_steps": int(last["steps"]),
        UNTIL_BINARY: None if math.isnan(since) else int(since),
    }


def percent_until_binary(metrics: JsonMapping) -> dict[str, float | None]:
    """Returns the share of the training steps until all selectors were binary.

    Args:
        metrics: Those of a split, in `metrics.json`.

    Returns:
        Percent by the name of a column, `None` where a selector was not
        binary in the end; nothing of gates without selectors.

    Example:
    >>> percent_until_binary({"training_steps": 20, "steps_until_binary": 15})
    {'steps until binary (%)': 75.0}
    """
    if "training_steps" not in metrics:
        return {}
    until = metrics[UNTIL_BINARY]
    share = None if until is None else 100 * until / metrics["training_steps"]
    return {"steps until binary (%)": share}
