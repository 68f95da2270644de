from pathlib import Path

from recsys.errors.shown import printable
from recsys.runs.data_file import has_same_split
from recsys.runs.run import Run
from recsys.terminal.progress import announce


def warn_if_known(
    run: Run, data: str | Path, split: str, refitted: str | None
) -> None:
    """Says where what is to be measured was trained on the very rows.

    Args:
        run: The run.
        data: The data set it is measured on.
        split: Name of the split.
        refitted: What of the run was trained on its validation split, too;
            `None` for nothing.

    Raises:
        FileError: A file of the run is broken.
    """
    if refitted is None or split != "validation":
        return
    if has_same_split(run.data, str(data), split):
        announce(
            f"Warning: {refitted} of {printable(str(run.folder))} learned this "
            "validation split, too (refit), which says little of new rows; "
            "its metrics.json has what was measured before that"
        )
