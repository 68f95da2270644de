"""Rows to try an exported model with, as a data set has them."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from recsys.data.columns import check_columns
from recsys.data.columns import parse
from recsys.data.datasets.synthetic import synthetic
from recsys.data.formats.table import to_frame
from recsys.data.item_columns import ItemColumns
from recsys.data.split_dataset import read_schema
from recsys.data.split_files import split_files
from recsys.data.streaming.table_stream import TableStream
from recsys.models.ranker import Ranker


def drawn_rows(ranker: Ranker, count: int) -> pd.DataFrame:
    """Draws rows with known, unknown and missing values of all features.

    Args:
        ranker: A trained ranker.
        count: How many rows.
    """
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            name: feature.sample(generator, count)
            for name, feature in ranker.fitted.items()
        }
    )


def with_missing(rows: pd.DataFrame, ranker: Ranker, name: str) -> pd.DataFrame:
    """Returns rows in which a feature is missing.

    Args:
        rows: As `drawn_rows` returns them.
        ranker: The ranker that they are for.
        name: The feature.
    """
    nothing = pd.Series([None] * len(rows), rows.index, dtype=object)
    changed = rows.copy()
    changed[name] = ranker.features[name].check(nothing, name)
    return changed


def rows_of_test_split(
    source: str, seed: int, ranker: Ranker, count: int
) -> pd.DataFrame:
    """Returns rows of the test split that a ranker was trained beside.

    Args:
        source: The data of its run: `"synthetic"`, or a folder.
        seed: The seed of its run.
        ranker: The ranker.
        count: How many rows at most, drawn from the first ones that are read
            at a time.

    Returns:
        The rows that the inputs of an exported model can take; none where the
        folder is not there.

    Raises:
        DataError: The split does not hold what the ranker was trained on.
    """
    if source == "synthetic":
        rows = synthetic(seed=seed).split("test")
    elif Path(source).is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            file = split_files(source, "test")[0]
            items = ItemColumns(source, read_schema(source))
            stream = TableStream(file, (), Path(scratch))
            in_file = items.read_from(ranker.features, stream.schema.names)
            check_columns(stream.schema.names, in_file, file)
            table, where = next(iter(stream.pieces()))
            rows = parse(
                to_frame(table.select(list(in_file)), where), in_file, where
            )
            rows = items.join(rows, ranker.features, where)
    else:
        return drawn_rows(ranker, 0)
    taken = [
        feature.takes(rows[name]) for name, feature in ranker.fitted.items()
    ]
    rows = rows.loc[np.logical_and.reduce(taken), list(ranker.features)]
    return rows.sample(min(count, len(rows)), random_state=0)
