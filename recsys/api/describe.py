from pathlib import Path

from recsys.data import load
from recsys.data.description.description import describe_dataset
from recsys.files.atomic import replacing
from recsys.files.folders import check_vacant
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.reporting.data_description import description_sections
from recsys.reporting.pages import Pages
from recsys.terminal.progress import announce


def describe(data: str | Path, out: str | Path | None = None) -> JsonObject:
    """Looks at a data set before training.

    Counts are exact: of rows, missing, distinct and unseen values, labels and
    duplicates. They are made by DuckDB, from a copy in a temporary folder
    (`TMPDIR`), with at most 512 MB of memory; of data that are streamed, a row
    group at a time is read. How well a single feature predicts a label, and
    how much a feature has shifted, is measured on at most 100,000 rows of each
    split. All rows count once, whatever their weight.

    Args:
        data: Data folder, or "synthetic".
        out: New or empty folder for a page, `index.html`, the same as
            `report.md`, and what is returned as `description.json`. Nothing
            is written unless given.

    Returns:
        "name"; "splits" with "rows", "duplicates" and so on, and the labels
        of "tasks"; "features" with the facts of each by split; "owners", the
        users and items; "periods", the rates of labels by day, week, month or
        year, where the data name a time; "giveaways", how well each feature
        alone predicts each task; "drift", the population stability index of
        each feature; "warnings", each with its "kind", "text" and "remedy".

    Raises:
        DataError: The data are missing or wrong.
        RunError: `out` is not empty, or there is no room for the copy.
    """
    if out is not None:
        check_vacant(Path(out))
    announce(f"Reading the data in {data}")
    dataset = load(data)
    announce("Counting values and labels")
    described = describe_dataset(dataset)
    if out is not None:
        with sole_writer(out):
            _write(described, Path(out))
    return described


def _write(described: JsonObject, out: Path) -> None:
    rows = {split: f["rows"] for split, f in described["splits"].items()}
    counted = ", ".join(f"{split} {n:,}" for split, n in rows.items())
    number = len(described["warnings"])
    summary = f"Rows: {counted}. {number} warning{'s' * (number != 1)}."
    title = f"Data set {described['name']!r}"
    with replacing(out) as unfinished:
        unfinished.mkdir()
        pages = Pages(title, summary, description_sections(described))
        pages.write(unfinished)
        write_json(unfinished / "description.json", described)
