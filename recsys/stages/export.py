import os
import sys
from pathlib import Path

import keras

from recsys.atomic import replacing
from recsys.errors import ExportError
from recsys.errors import RunError
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.exporting.input_names import INPUTS_FILE
from recsys.exporting.input_names import read_input_names
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.verification import last_line
from recsys.exporting.verification import verify
from recsys.json_files import write_json
from recsys.lifeline import run_alongside
from recsys.output_lock import sole_writer
from recsys.run import Run


def export(
    run: str | Path, out: str | Path, format: str = "tf_saved_model"
) -> dict[str, str]:
    """Exports the model of a run in a form that is served without Keras.

    `recsys.exporting` has the formats, which say what a model takes and
    returns. Experts that no static gate uses are left out. What was written
    is loaded in a fresh process that cannot import Keras, and has to predict
    there what the model predicts. Under another backend than that of the
    format, a process that runs on it does all this.

    Args:
        run: Run folder, trained under any backend.
        out: Folder of the exported model; new or empty.
        format: `"tf_saved_model"` (default).

    Returns:
        By feature, the name of the model's input for it: the feature's own,
        unless that cannot be one. `assets.extra/inputs.json` in the folder
        has it, too.

    Raises:
        ExportError: What was written does not predict what the model does;
            nothing is left at `out`.
        RunError: There is no trained run on tables in the folder, or `out` is
            not empty, or another process is writing to it.
        ValueError: There is no such format.
    """
    out = Path(out)
    folder = Run(run)
    form = export_format(format)
    if keras.backend.backend() == form.backend:
        with sole_writer(out):
            _check_vacant(out)
            _export(folder, out, form)
    else:
        _check_vacant(out)
        folder.check_model()
        _export_elsewhere(run, out, form)
    return read_input_names(out)


def _check_vacant(out: Path) -> None:
    if out.exists() and (out.is_file() or any(out.iterdir())):
        raise RunError(
            "`out` must be a new or empty folder. "
            f"Received: out={str(out)!r}, which holds something"
        )


def _export(run: Run, out: Path, form: ExportFormat) -> None:
    ranker = run.load_ranker()
    served = ServedRanker(ranker)
    with replacing(out) as unfinished:
        form.write(served, unfinished)
        write_json(unfinished / INPUTS_FILE, served.input_names)
        verify(form, unfinished, ranker)


def _export_elsewhere(run: str | Path, out: Path, form: ExportFormat) -> None:
    """Exports in a process with the backend of the format."""
    process = run_alongside(
        [
            *(sys.executable, "-m", "recsys.child_process", "export"),
            *("--run", str(run), "--out", str(out), "--format", form.name),
        ],
        env={**os.environ, "KERAS_BACKEND": form.backend},
    )
    if process.returncode:
        raise ExportError(last_line(process.stderr))
