import os
import sys
import warnings
from pathlib import Path

import keras
import pandas as pd

from recsys.api.compact_export import TABLES_FILE
from recsys.api.compact_export import check_tables
from recsys.api.compact_export import compacted
from recsys.api.export_descriptions import write_descriptions
from recsys.errors import DataError
from recsys.errors import ExportError
from recsys.exporting import ExportFormat
from recsys.exporting import export_format
from recsys.exporting.class_names import class_names
from recsys.exporting.examples import examples
from recsys.exporting.exported_ids import known_ids
from recsys.exporting.input_names import INPUTS_FILE
from recsys.exporting.input_names import read_input_names
from recsys.exporting.served_ranker import ServedRanker
from recsys.exporting.trial_rows import rows_of_test_split
from recsys.exporting.verification import DATA_ROWS
from recsys.exporting.verification import last_line
from recsys.exporting.verification import verify
from recsys.exporting.versions import write_model
from recsys.files.atomic import replacing
from recsys.files.folders import check_vacant
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.models.budgets import budgets_of
from recsys.models.compact_rows import FLOAT32
from recsys.models.ranker import Ranker
from recsys.processes.lifeline import run_alongside
from recsys.runs.run import Run
from recsys.serving.budget_range import write_budget_range
from recsys.serving.formats import DEFAULT_FORMAT
from recsys.serving.list_lengths import write_list_lengths
from recsys.serving.monitoring.known_ids import write_known_ids
from recsys.serving.task_classes import write_classes


def export(
    run: str | Path,
    out: str | Path,
    format: str = DEFAULT_FORMAT,
    version: bool = True,
    expert_weights: bool = False,
    tables: str = FLOAT32,
) -> dict[str, str]:
    """Exports the model of a run in a form that is served without Keras.

    `recsys.exporting` has the formats, which say what a model takes and
    returns. Experts that no static gate uses are left out. What was written
    is loaded in a fresh process that cannot import Keras, and has to predict
    there what the model predicts, on rows of the run's test split, where its
    data are still there, and on rows with known, unknown and missing values of
    all features. Under another backend than that of the format, a process that
    runs on it does all this.

    Args:
        run: Run folder, trained under any backend.
        out: Folder of the versions of the model, which need not exist: the
            model is written to `out/1`, or to the number after the highest
            one there.
        format: `"tf_saved_model"` (default) or `"onnx"`.
        version: Whether to number the model; otherwise it is written to `out`
            itself, which has to be new or empty. Defaults to `True`.
        expert_weights: Whether the model also returns, as `"<task>/experts"`,
            how much each expert weighs for the task. Defaults to `False`.
        tables: How embedding tables are stored: `"float32"` (default),
            `"float16"`, half of that, or `"int8"`, with a scale for each row:
            a row of width w takes w + 4 bytes instead of 4 w. The rows that
            are looked up become floats in the graph. The losses on the test
            split before and after, and the sizes, are in
            `assets.extra/tables.json`.

    Returns:
        By feature, the name of the model's input for it: the feature's own,
        unless that cannot be one. `assets.extra/inputs.json` in the folder of
        the model has it, too.

    Raises:
        ExportError: What was written does not predict what the model does,
            or a table cannot be stored so; nothing of it is left.
        RunError: There is no trained run on tables in the folder, or one
            whose tasks were not trained, or `out` holds something else, or
            another process is writing to it.
        ValueError: There is no such format, or tables cannot be stored so.
    """
    _, names = export_to(run, out, format, version, expert_weights, tables)
    return names


def export_to(
    run: str | Path,
    out: str | Path,
    format: str = DEFAULT_FORMAT,
    version: bool = True,
    expert_weights: bool = False,
    tables: str = FLOAT32,
) -> tuple[Path, dict[str, str]]:
    """Does what `export` does, and returns the folder of the model as well."""
    form = export_format(format)
    check_tables(tables)
    folder = write_model(
        out,
        version,
        lambda folder: _write(Run(run), folder, form, expert_weights, tables),
    )
    return folder, read_input_names(folder)


def _write(
    run: Run,
    folder: Path,
    form: ExportFormat,
    expert_weights: bool,
    tables: str,
) -> None:
    if keras.backend.backend() != form.backend:
        run.check_model()
        _export_elsewhere(run, folder, form, expert_weights, tables)
        return
    with sole_writer(folder):
        check_vacant(folder)
        _export(run, folder, form, expert_weights, tables)


def _export(
    run: Run,
    folder: Path,
    form: ExportFormat,
    expert_weights: bool,
    tables: str,
) -> None:
    ranker = run.load_ranker()
    ranker.check_trained_tasks(run.folder)
    cost = None if tables == FLOAT32 else compacted(run, ranker, tables)
    served = ServedRanker(ranker, expert_weights)
    with replacing(folder) as unfinished:
        form.write(served, unfinished)
        write_json(unfinished / INPUTS_FILE, served.input_names)
        if cost is not None:
            write_json(unfinished / TABLES_FILE, cost)
        write_classes(unfinished, class_names(ranker))
        write_known_ids(unfinished, known_ids(served.inputs))
        write_list_lengths(
            unfinished,
            {
                name: feature.raw_length
                for name, feature in served.inputs.items()
            },
        )
        budgets = budgets_of(served.ranker)
        write_budget_range(unfinished, budgets)
        verify(form, unfinished, ranker, _rows_of_data(run, ranker))
        values = examples(served.inputs, budgets)
        write_descriptions(run, ranker, values, unfinished)


def _rows_of_data(run: Run, ranker: Ranker) -> pd.DataFrame | None:
    """Rows of the test split, where the data of the run are still there."""
    if not run.config.is_file():
        return None
    config = run.read_config()
    try:
        return rows_of_test_split(config.data, config.seed, ranker, DATA_ROWS)
    except DataError as error:
        warnings.warn(
            f"the export is not verified on the data of the run: {error}",
            stacklevel=2,
        )
        return None


def _export_elsewhere(
    run: Run,
    folder: Path,
    form: ExportFormat,
    expert_weights: bool,
    tables: str,
) -> None:
    """Exports in a process with the backend of the format."""
    words = ["--run", str(run.folder), "--out", str(folder), "--no-version"]
    if expert_weights:
        words.append("--expert-weights")
    process = run_alongside(
        [
            *(sys.executable, "-m", "recsys.child_process", "export"),
            *(*words, "--format", form.name, "--tables", tables),
        ],
        env={**os.environ, "KERAS_BACKEND": form.backend},
    )
    if process.returncode:
        raise ExportError(last_line(process.stderr))
