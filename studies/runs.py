"""Trainings that are repeated with several seeds, and what they come to."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import TypeAlias

import pandas as pd

from recsys.errors import FileError
from recsys.files.json_files import read_json
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.reporting.markdown import markdown_table
from recsys.reporting.statistics import mean_and_error

Value: TypeAlias = str | int | float | None
Settings: TypeAlias = Mapping[str, Value]
Measures: TypeAlias = Mapping[str, Value]


def run_all(
    plan: Iterable[Settings],
    train: Callable[[Settings], Measures],
    out: Path,
) -> pd.DataFrame:
    """Trains what is planned and not in `out/results.json` yet.

    The file is written anew after each run, so that an interrupted study goes
    on where it was.

    Args:
        plan: What tells each run from the others, the seed among it.
        train: Returns what a run has come to, with names of its own.
        out: Folder of the results.

    Returns:
        A row per planned run: its settings, and what was measured.

    Raises:
        FileError: The file of the results is broken.
        RunError: Another process is writing to `out`.
    """
    file = out / "results.json"
    rows: list[dict[str, Value]] = []
    with sole_writer(out):
        known = _read(file)
        for settings in map(dict, plan):
            row = next(
                (r for r in known if settings.items() <= r.items()), None
            )
            if row is None:
                row = {**settings, **train(settings)}
                known.append(row)
                write_json(file, known)
            rows.append(row)
    return pd.DataFrame(rows)


def _read(file: Path) -> list[dict[str, Value]]:
    known = read_json(file) if file.exists() else []
    if not isinstance(known, list) or not all(
        isinstance(row, dict) for row in known
    ):
        raise FileError.at(file, "a list of runs", "something else")
    return known


def summary(
    results: pd.DataFrame, by: Sequence[str], digits: Mapping[str, int]
) -> str:
    """Returns means and standard errors over the seeds as Markdown.

    Args:
        results: A row per run.
        by: The columns whose values make a line of the table.
        digits: The columns that are measures, and the digits of each. One
            that no run has is left out.

    Example:
    >>> runs = pd.DataFrame({"gate": ["top-k"] * 2, "loss": [0.2, 0.4]})
    >>> print(summary(runs, ["gate"], {"loss": 2}))
    | gate | runs | loss |
    |---|---|---|
    | top-k | 2 | 0.30 ± 0.10 |
    """
    digits = {name: n for name, n in digits.items() if name in results}
    lines = []
    for values, group in results.groupby(list(by), sort=False, dropna=False):
        means = [
            mean_and_error(group[measure].dropna(), places)
            for measure, places in digits.items()
        ]
        lines.append([*map(_shown, values), str(len(group)), *means])
    return markdown_table([*by, "runs", *digits], lines)


def _shown(value: Any) -> str:
    return "-" if pd.isna(value) else str(value)
