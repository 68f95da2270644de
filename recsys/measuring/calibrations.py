import numpy as np

from recsys.data.load import AnyDataset
from recsys.errors import DataError
from recsys.errors import RunError
from recsys.errors.shown import did_you_mean
from recsys.features.one_id import OneRow
from recsys.measuring.measuring import scores_of
from recsys.models.calibration.calibration import Calibration
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.tasks.binary import Binary
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of


def calibrations(
    model: MultiTaskModel,
    dataset: AnyDataset,
    method: str,
    by: str | None,
    min_rows: int,
) -> dict[str, Calibration]:
    """Fits the calibrations of a model to the validation split.

    Args:
        model: A model without calibrations.
        dataset: Data that fit it.
        method: A name among `CALIBRATORS`.
        by: A feature that `check_calibrates_by` accepts; `None` for none.
        min_rows: Rows that a value of the feature needs.

    Returns:
        Calibrations by task; a task is left out if it is not binary, or its
        labels are all the same.

    Raises:
        DataError: No task is left.
        RunError: A prediction is not finite.
    """
    schema, split = dataset.schema, dataset.split("validation")
    scores = scores_of(model, split)
    columns = schema.truth_columns
    rows = split[list(dict.fromkeys([*columns, *([by] if by else [])]))]
    labels = labels_of(rows, model.tasks)
    weights = weights_of(rows, schema.row_weights)
    if weights is None:
        weights = np.ones(len(rows))
    codes = None
    if by is not None:
        assert isinstance(model, Ranker), "checked before"
        codes = model.fitted[by].encode(rows[by])
    fitted = {}
    for task, kind in model.tasks.items():
        known = ~np.isnan(labels[task]) & (weights > 0)
        one_label = len(np.unique(labels[task][known])) < 2
        if not isinstance(kind, Binary) or one_label:
            continue
        predicted = scores.predictions[task][known]
        if not np.isfinite(predicted).all():
            raise RunError(
                f"task {task!r}: expected finite predictions. Received: NaN"
            )
        fitted[task] = Calibration.fit(
            method,
            labels[task][known],
            predicted,
            weights[known],
            by,
            None if codes is None else codes[known],
            min_rows,
        )
    if not fitted:
        raise DataError.at(
            f"{schema.place}, split 'validation'",
            "labels 0 and 1 of a binary task, to calibrate it",
            "one label alone",
        )
    return fitted


def check_calibrates_by(model: MultiTaskModel, by: str) -> None:
    """Raises DataError unless a feature can have calibrations by value.

    Args:
        model: A model.
        by: The feature.
    """
    named: list[str] = []
    if isinstance(model, Ranker):
        named = [n for n, f in model.fitted.items() if isinstance(f, OneRow)]
    if by not in named:
        raise DataError.at(
            "a calibration by a feature",
            f"an id, hash or bucket feature of {', '.join(named) or 'none'}",
            f"{by!r}{did_you_mean(by, named)}",
        )
