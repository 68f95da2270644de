from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from recsys.atomic import replacing
from recsys.data import DataError
from recsys.data import read_table
from recsys.data import write_table
from recsys.data.columns import parse
from recsys.data.formats.table import SUFFIXES
from recsys.models.scorer import Scorer
from recsys.output_lock import sole_writer
from recsys.run import Run


def predict(run: str | Path, input: str | Path, out: str | Path) -> int:
    """Predicts every task for the rows of a table.

    Ids that the model does not know, or that are missing, are unknown ids;
    missing numbers count as the mean.

    Args:
        run: Run folder.
        input: Table with the feature columns, `.parquet`, `.csv`, `.tsv`,
            `.csv.gz` or `.tsv.gz`. Other columns are kept.
        out: Table to write, of any of these types: the columns of `input`
            and one column per task, named after it, or for a multiclass task
            `<task>_0`, `<task>_1`, ..., the probability of each class. Where
            `input` has a column of such a name, it is kept as `<name>_label`.

    Returns:
        The number of rows.

    Raises:
        DataError: The table, a feature or a value is missing or wrong.
        RunError: There is no trained run on tables in the folder, or another
            process is writing to `out`.
    """
    out = Path(out)
    if not out.name.endswith(SUFFIXES):
        raise DataError.at(
            "`out`", f"a file name ending in one of {SUFFIXES}", repr(out.name)
        )
    with sole_writer(out):
        ranker = Run(run).load_ranker()
        table = read_table(input)
        scores = Scorer(ranker).score(parse(table, ranker.features, input))
        predictions = ranker.columns(scores.predictions)
        kept = table.rename(columns=_kept_labels(table, predictions, input))
        columns = {**kept, **predictions}
        with replacing(out) as unfinished:
            write_table(pd.DataFrame(columns), unfinished)
    return len(table)


def _kept_labels(
    table: pd.DataFrame, predicted: Iterable[str], file: object
) -> dict[str, str]:
    """The new names of the columns that predictions are to be named after."""
    names = {
        name: f"{name}_label" for name in predicted if name in table.columns
    }
    for name in names.values():
        if name in table.columns:
            raise DataError.at(
                file,
                f"no column {name!r}, the name that the labels are kept under",
                "one of that name",
            )
    return names
