from collections.abc import Sequence
from pathlib import Path

from rich.progress import Progress

from recsys.data.columns import FEATURE_TYPES
from recsys.data.columns import TASK_TYPES
from recsys.data.dataset import Dataset
from recsys.data.dataset import parse_split
from recsys.data.from_table import cut
from recsys.data.from_table import row_order
from recsys.data.named_columns import named_columns
from recsys.data.schema import Schema
from recsys.data.table import read_table


def custom_table(
    raw_dir: Path,
    seed: int,
    progress: Progress,
    train: str,
    validation: str | None = None,
    test: str | None = None,
    ids: Sequence[str] = (),
    numbers: Sequence[str] = (),
    binary: Sequence[str] = (),
    regression: Sequence[str] = (),
    time: str | None = None,
    validation_share: float = 0.15,
    test_share: float = 0.15,
) -> Dataset:
    """Prepares a table of one's own, in one file or split already.

    The columns are told by type, each by its name or by a pattern such as
    `categorical_*`. What is not told is left out.

    Args:
        raw_dir: Folder with the files, which names the data set.
        seed: Seed of the splits that are drawn.
        progress: Shows how many files are read.
        train: Parquet or CSV file with the rows to train on. A split without
            a file of its own is taken off its rows.
        validation: File with the rows for validation, if there is one.
        test: File with the rows for the test, if there is one.
        ids: Features of which only equality counts.
        numbers: Features that are numbers.
        binary: Tasks with labels 0 and 1.
        regression: Tasks with numbers as labels.
        time: Column of the training file by whose order splits are taken off
            its end; they are drawn unless given.
        validation_share: Share of the training file's rows that are for
            validation where there is no file for it.
        test_share: The same for the test.

    Returns:
        The data set.

    Raises:
        DataError: A file, a column or a value is missing or wrong.
        ValueError: A share is outside its bounds.

    Example:
    >>> import tempfile
    >>> import pandas as pd
    >>> from recsys.data import write_table
    >>> folder = Path(tempfile.mkdtemp())
    >>> log = pd.DataFrame({"user": range(20), "click": [0, 1] * 10})
    >>> write_table(log, folder / "log.csv")
    >>> options = {"train": "log.csv", "ids": ["user"], "binary": ["click"]}
    >>> dataset = custom_table(folder, 0, Progress(disable=True), **options)
    >>> len(dataset.split("train"))
    14
    """
    named = {"train": train, "validation": validation, "test": test}
    files = {split: raw_dir / name for split, name in named.items() if name}
    tables = {
        split: read_table(files[split])
        for split in progress.track(files, description="Reading files")
    }
    file, table = files["train"], tables["train"]
    columns = named_columns(
        [column for column in table.columns if column != time],
        {
            "id": ids,
            "number": numbers,
            "binary": binary,
            "regression": regression,
        },
        file,
    )
    schema = Schema(
        raw_dir.resolve().name,
        {name: kind for name, kind in columns.items() if kind in FEATURE_TYPES},
        {name: kind for name, kind in columns.items() if kind in TASK_TYPES},
    )
    splits = {
        split: parse_split(tables[split], columns, files[split])
        for split in files
    }
    shares = {"validation": validation_share, "test": test_share}
    missing = {split: shares[split] for split in shares if split not in files}
    if missing:
        order = row_order(table, time, seed, file)
        splits |= cut(splits["train"].iloc[order], missing, file)
    return Dataset(schema, splits)
