from pathlib import Path

from recsys.errors.shown import printable
from recsys.runs.data_file import has_same_split
from recsys.runs.run import Run
from recsys.terminal.progress import announce


def warn_if_known(
    run: Run, data: str | Path, split: str, refitted: bool
) -> None:
    """Says where what is to be measured was trained on the very rows.

    Args:
        run: The run.
        data: The data set it is measured on.
        split: Name of the split.
        refitted: Whether the run, or a part of it, was trained on its
            validation split, too.

    Raises:
        FileError: A file of the run is broken.
    """
    if not refitted or split != "validation":
        return
    if has_same_split(run.data, str(data), split):
        announce(
            f"Warning: {printable(str(run.folder))} was trained on this "
            "validation split, too (refit), which says little of new rows; "
            "its metrics.json has those of the training before"
        )
