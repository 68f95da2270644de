from pathlib import Path

from recsys.data import load
from recsys.errors import RunError
from recsys.errors.bounds import check_count
from recsys.errors.choices import check_choice
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.measuring.calibrations import calibrations
from recsys.measuring.calibrations import check_calibrates_by
from recsys.measuring.measuring import Measuring
from recsys.measuring.measuring import scores_of
from recsys.models.calibration.calibration import CALIBRATORS
from recsys.models.multi_task_model import MultiTaskModel
from recsys.runs.run import Run
from recsys.tasks.binary import Binary

MIN_ROWS = 200
_SHOWN = ("ece", "loss")


def calibrate(
    run: str | Path,
    data: str | Path,
    method: str = "isotonic",
    by: str | None = None,
    min_rows: int = MIN_ROWS,
) -> JsonObject:
    """Calibrates the binary tasks of a run on its validation split.

    The model keeps the calibration: from here on `evaluate`, `predict`,
    `recommend` and all exports give calibrated probabilities, and the run's
    `metrics.json` is measured anew. A calibration of the run from before is
    replaced. A run that is trained further begins without one.

    Args:
        run: Folder of a finished run.
        data: Data folder, or "synthetic".
        method: `"isotonic"` (default), `"platt"` or `"beta"`; see
            `recsys.models.calibration`.
        by: An id, hash or bucket feature, whose values get a calibration
            each. One for all rows unless given.
        min_rows: A value of `by` with fewer labelled rows has the calibration
            of all rows, as has one with one label alone. Defaults to 200.

    Returns:
        What `calibration.json` of the run holds: "method", "by", and "tasks",
        for each binary task the "values" of `by` with a calibration of their
        own, a number, and before and after, on the test split, "ece" and
        "loss". A task is left as it is, and out of "tasks", if the labels of
        its validation split are all the same.

    Raises:
        DataError: The data are missing or wrong, or have no such feature, or
            no task can be calibrated.
        FileError: A file of the run is broken.
        RunError: There is no finished run in the folder, or it has no binary
            task, or predictions that are not finite, or was trained on the
            validation split as well, or its tasks were not trained.
        ValueError: There is no such method, or `min_rows` is less than 1.
    """
    check_choice("method", method, CALIBRATORS)
    check_count("min_rows", min_rows)
    folder = Run(run)
    model = folder.load_model()
    _check_run(folder, model)
    if by is not None:
        check_calibrates_by(model, by)
    config, dataset = folder.read_config(), load(data)
    folder.check_weighs(config, model)
    model.check_fits(dataset)
    measuring = Measuring.of(model, config, dataset.schema)
    with sole_writer(folder.folder):
        model.calibrations = {}
        fitted = calibrations(model, dataset, method, by, min_rows)
        before = scores_of(model, dataset.split("test"))
        truth = dataset.split("test")[dataset.schema.truth_columns]
        tasks_before = measuring.measure(before, truth)["tasks"]
        model.calibrations = fitted
        metrics = folder.read_metrics()
        for split in ("validation", "test"):
            scores = scores_of(model, dataset.split(split))
            rows = dataset.split(split)[dataset.schema.truth_columns]
            metrics[split] |= measuring(scores, rows)
        tasks_after = metrics["test"]["tasks"]
        report: JsonObject = {
            "method": method,
            "by": by,
            "tasks": {
                task: {
                    "values": len(calibration.numbers),
                    "before": {n: tasks_before[task][n] for n in _SHOWN},
                    "after": {n: tasks_after[task][n] for n in _SHOWN},
                }
                for task, calibration in fitted.items()
            },
        }
        folder.save_model(model)
        write_json(folder.metrics, metrics)
        write_json(folder.calibration, report)
    return report


def _check_run(run: Run, model: MultiTaskModel) -> None:
    model.check_trained_tasks(run.folder)
    received = None
    if not run.is_finished:
        received = "one without metrics of the test split"
    elif run.read_config().refit:
        received = "one that was trained on the validation split (refit)"
    elif not any(isinstance(kind, Binary) for kind in model.tasks.values()):
        received = f"one with the tasks {', '.join(model.tasks)}"
    if received is not None:
        raise RunError(
            f"{run.folder}: expected a finished run with a binary task. "
            f"Received: {received}"
        )
