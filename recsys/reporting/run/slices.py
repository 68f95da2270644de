from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data import DataError
from recsys.data import load
from recsys.data.split_dataset import SPLITS
from recsys.data.split_files import split_files
from recsys.errors import RunError
from recsys.files.json_files import JsonMapping
from recsys.measuring.cuts import cuts
from recsys.measuring.measuring import Measuring
from recsys.measuring.task_scores import task_scores
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.runs.data_file import check_data

_MOST_ROWS = 20_000
_MOST_BYTES = 1 << 26  # Larger data take seconds to read.
_MOST_VALUES = 5
# Slices of fewer rows have losses of chance.
_FEWEST = 30
# Of the rows, that a slice has which is named as the worst.
_LEAST_SHARE = 0.05


def slices(run: Trained) -> Section | None:
    """Lists the metrics of parts of the test split, by each feature.

    Args:
        run: The run; its data must still be there, unchanged.
    """
    model = run.loaded if run.has_predictions else None
    if not isinstance(model, Ranker):
        return None
    why = _unreadable(run)
    if why:
        return Section(
            "Slices",
            f"Not measured, as {why}. recsys evaluate --by FEATURE measures "
            "parts of any data.",
        )
    dataset = load(run.config.data)
    rows = dataset.split("test")
    if len(rows) > _MOST_ROWS:
        rows = rows.sample(_MOST_ROWS, random_state=0)
    assert isinstance(rows, pd.DataFrame), "a ranker is of tables"
    rows = rows.reset_index(drop=True)
    measuring = replace(
        Measuring.of(model, run.config, dataset.schema), constants={}
    )
    scores = Scorer(model).score(rows)
    whole = measuring.measure(scores, rows)
    by_feature = {
        name: measuring.by_cut(scores, rows, parts)
        for name, parts in _cuts(model, rows)
    }
    table = _table(whole, by_feature)
    return Section(
        "Slices",
        f"Metrics of parts of {len(rows):,} rows of the test split: numbers "
        "at their quartiles, ids by their most frequent values, and ids that "
        f"training does not have (unknown). Parts of fewer than {_FEWEST} "
        "rows are left out.",
        [table],
        findings=_findings(whole, by_feature),
    )


def _unreadable(run: Trained) -> str:
    """Says why the data cannot be read again; empty where they can."""
    source = run.config.data
    if source == "synthetic":
        return ""
    try:
        files = [f for split in SPLITS for f in split_files(source, split)]
        if sum(Path(file).stat().st_size for file in files) > _MOST_BYTES:
            return "the data take long to read"
        check_data(run.run.data, source)
    except DataError:
        return f"the data are no longer in {source}"
    except RunError:
        return "the data have changed since the training"
    return ""


def _cuts(
    model: Ranker, rows: pd.DataFrame
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    for name in model.features:
        vocabulary = model.fitted[name].vocabulary
        encode = None if vocabulary is None else vocabulary.encode
        try:
            parts = cuts(name, rows[name], encode, _MOST_VALUES)
        except DataError:  # Lists have no single value.
            continue
        kept = {
            p: chosen for p, chosen in parts.items() if chosen.sum() >= _FEWEST
        }
        if len(kept) > 1:
            yield name, kept


def _table(whole: JsonMapping, by_feature: Mapping[str, JsonMapping]) -> Table:
    columns = list(task_scores(whole))
    parts = {("all", ""): whole}
    parts |= {
        (name, part): metrics
        for name, of_feature in by_feature.items()
        for part, metrics in of_feature.items()
    }
    rows = [
        [
            name,
            part,
            f"{metrics['rows']:,}",
            f"{metrics['loss']:.4f}",
            *(_shown(task_scores(metrics).get(column)) for column in columns),
        ]
        for (name, part), metrics in parts.items()
    ]
    header = ["feature", "part", "rows", "weighted loss", *columns]
    return Table("Parts of the test split", header, rows)


def _findings(
    whole: JsonMapping, by_feature: Mapping[str, JsonMapping]
) -> list[str]:
    parts = [
        (metrics["loss"], name, part, metrics["rows"])
        for name, of_feature in by_feature.items()
        for part, metrics in of_feature.items()
        if metrics["rows"] >= _LEAST_SHARE * whole["rows"]
    ]
    if not parts or not whole["loss"]:
        return []
    loss, name, part, rows = max(parts)
    change = f"{loss / whole['loss'] - 1:+.0%}".replace("%", " %")
    return [
        "Of parts with at least 5 % of the rows, the loss is "
        f"highest where {name!r} is {part} ({rows:,} rows): {loss:.4f}, "
        f"{change} against all rows."
    ]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
