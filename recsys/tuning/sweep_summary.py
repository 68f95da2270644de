"""Summary of a finished sweep, for a terminal."""

import json
import shlex
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from recsys.errors.shown import printable
from recsys.files.json_files import JsonMapping
from recsys.tuning.sweep import Sweep

_MOST_ROWS = 20
_SEEDS = 3


def print_summary(sweep: Sweep, sparse_only: bool = True) -> None:
    """Prints the trials of a sweep, the best one and what to do with it.

    Args:
        sweep: The folder of a sweep that has ended.
        sparse_only: Whether the trials whose gate was to become sparse and
            has not are left out. Defaults to `True`.

    Raises:
        FileError: The log is broken.
    """
    records = sweep.log.read()
    selection = sweep.select(sparse_only)
    counting = [record["trial"] for record in selection.trials]
    Console().print(_table(_ordered(records, counting), counting))
    if len(records) > _MOST_ROWS:
        print(
            f"The other {len(records) - _MOST_ROWS:,} are in {sweep.log.file}"
        )
    failed = sum(record["status"] == "failed" for record in records)
    print(f"{len(records)} trials, {failed} of them failed, in {sweep.folder}")
    if selection.notice:
        print(selection.notice)
    for best in selection.trials[:1]:
        values = json.dumps(best["hyperparameters"])
        print(f"Best: trial {best['trial']} with {values}")
        print(f"Its model and metrics: {sweep.runs / best['trial']}")
    if any(record["status"] == "completed" for record in records):
        print(_next(sweep, bool(counting) and sparse_only))


def _next(sweep: Sweep, sparse_only: bool) -> str:
    """The next command."""
    words = ["recsys", "rerun", "--sweep", str(sweep.folder)]
    words += ["--out", f"{sweep.folder}-rerun", "--seeds", str(_SEEDS)]
    if not sparse_only:
        words.append("--any-sparsity")
    return (
        f"Next, train the best trial again with {_SEEDS} new seeds:\n"
        f"  {shlex.join(words)}"
    )


def _ordered(
    records: Sequence[JsonMapping], counting: Sequence[str]
) -> list[JsonMapping]:
    """Counted trials, the best first, then excluded ones, then failed ones."""
    places = {trial: place for place, trial in enumerate(counting)}

    def key(record: JsonMapping) -> tuple[bool, int, float]:
        failed = record["status"] == "failed"
        place = places.get(record["trial"], len(places))
        loss = 0.0 if failed else record["validation"]["loss"]
        return failed, place, loss

    return sorted(records, key=key)


def _table(records: Sequence[JsonMapping], counting: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, collapse_padding=True)
    for title in ("Trial", "Loss", "Experts", "Counts"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("Drawn", overflow="fold")
    for record in records[:_MOST_ROWS]:
        values = record.get("hyperparameters", {})
        drawn = ", ".join(
            f"{name.rpartition('.')[2]} {_shown(value)}"
            for name, value in values.items()
        )
        table.add_row(
            *_cells(record, record["trial"] in counting),
            escape(printable(drawn)),
        )
    return table


def _cells(record: JsonMapping, counts: bool) -> list[str]:
    if record["status"] == "failed":
        return [record["trial"], "failed", "", "no"]
    experts = record["validation"]["experts_per_example"]
    return [
        record["trial"],
        f"{record['validation']['loss']:.4f}",
        "" if experts is None else f"{experts:.2f}",
        "yes" if counts else "no",
    ]


def _shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
