from pathlib import Path

from recsys.files.json_files import JsonObject
from recsys.reporting.run.overview import overview
from recsys.runs.run import Run


def info(run: str | Path) -> JsonObject:
    """Tells what a finished run is and what it is better than.

    It reads the files of the run alone, without Keras.

    Args:
        run: Run folder of `recsys train` or `recsys baseline`.

    Returns:
        "facts", texts by name, such as "data" and "model"; "scores", by
        metric texts for "validation", "test" and the "constant" prediction
        in the test split; "verdicts", sentences.

    Raises:
        FileError: A file of the run is broken.
        RunError: There is no finished run in the folder.
    """
    return overview(Run(run))
