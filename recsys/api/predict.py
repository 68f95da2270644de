from collections.abc import Collection
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from recsys.data import DataError
from recsys.data.columns import parse
from recsys.data.formats.suffix import SUFFIXES
from recsys.data.formats.table import to_frame
from recsys.data.formats.table_writer import table_writer
from recsys.data.left_out import left_out
from recsys.data.left_out import with_missing
from recsys.data.streaming.table_stream import TableStream
from recsys.data.whole_floats import warn_of_whole_floats
from recsys.files.atomic import replacing
from recsys.files.output_lock import sole_writer
from recsys.models.budgets import check_budget
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.runs.run import Run


def predict(
    run: str | Path,
    input: str | Path,
    out: str | Path,
    budget: float | None = None,
) -> int:
    """Predicts every task for the rows of a table.

    Ids that the model does not know, or that are missing, are unknown ids;
    missing numbers count as the mean, missing lists are empty. A feature whose
    column is left out is missing in every row, and a warning says so.

    Args:
        run: Run folder.
        input: Table with the feature columns, `.parquet`, `.csv`, `.tsv`,
            `.csv.gz` or `.tsv.gz`, or a folder of such parts, read a few rows
            at a time. All columns are kept as they are: with their types in
            Parquet, and with their texts in a text file.
        out: Another table, to write, of any of these types: the columns of
            `input` and one column per task, named after it, or for a
            multiclass task `<task>_0`, `<task>_1`, ..., or with the names of
            the classes, the probability of each class. Where `input` has a
            column of such a name, it is kept as `<name>_label`.
        budget: Experts per row on average, for a model trained with
            `gate="budget"`: from 1 to the number of its experts. `k` of the
            run unless given.

    Returns:
        The number of rows.

    Raises:
        DataError: The table is missing, a value is wrong, no feature has a
            column, another column has nearly the name of a feature without
            one, or `out` is `input` or one of its parts.
        OSError: There is no room for `out`.
        RunError: There is no trained run on tables in the folder, or one
            whose tasks were not trained, or another process is writing to
            `out`.
        ValueError: `budget` is out of range, or the model takes none.
    """
    out = Path(out)
    if not out.name.endswith(SUFFIXES):
        raise DataError.at(
            "`out`", f"a file name ending in one of {SUFFIXES}", repr(out.name)
        )
    _check_apart(out, Path(input))
    with sole_writer(out):
        ranker = Run(run).load_ranker()
        ranker.check_trained_tasks(run)
        check_budget(ranker, budget)
        with replacing(out) as unfinished:
            return _predict(ranker, input, unfinished, budget)


def _predict(
    ranker: Ranker, input: str | Path, out: Path, budget: float | None
) -> int:
    """Predicts for a few rows after the other; the folder of `out` is ours."""
    scratch = out.with_name("texts")
    scratch.mkdir()
    stream = TableStream(input, (), scratch)
    predicted = ranker.columns(ranker.no_predictions())
    labels = [*ranker.tasks, *predicted]
    missing = left_out(
        stream.schema.names, list(ranker.features), input, labels
    )
    kinds = {
        name: feature
        for name, feature in ranker.features.items()
        if name not in missing
    }
    for part in stream.parts:
        warn_of_whole_floats(part.types, kinds, part.file)
    renamed = _kept_labels(stream.schema.names, predicted, input)
    schema = pa.schema(
        [
            *(
                field.with_name(renamed.get(field.name, field.name))
                for field in stream.schema
            ),
            *(pa.field(name, pa.float64()) for name in predicted),
        ]
    )
    scorer, rows = Scorer(ranker, budget=budget), 0
    with table_writer(out, schema) as write:
        for table, where in stream.pieces():
            frame = with_missing(
                to_frame(table.select([*kinds]), where), missing
            )
            scores = scorer.score(parse(frame, ranker.features, where))
            columns = ranker.columns(scores.predictions).values()
            arrays = [*stream.alike(table).columns, *map(pa.array, columns)]
            write(pa.table(arrays, schema))
            rows += len(table)
    return rows


def _check_apart(out: Path, input: Path) -> None:
    """Refuses an output that is the input, through whatever links."""
    folder = out.parent.resolve()
    places = [out, folder, *folder.parents] if input.is_dir() else [out]
    if input.exists() and any(
        place.exists() and place.samefile(input) for place in places
    ):
        raise DataError.at(
            "`out`", f"a path outside the input, {input}", str(out)
        )


def _kept_labels(
    columns: Collection[str], predicted: Iterable[str], file: object
) -> dict[str, str]:
    """The new names of the columns that predictions are to be named after."""
    names = {name: f"{name}_label" for name in predicted if name in columns}
    for name in names.values():
        if name in columns:
            raise DataError.at(
                file,
                f"no column {name!r}, which is the name of the labels",
                "one of that name",
            )
    return names
