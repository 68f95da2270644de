"""Labels that a single feature nearly gives away."""

from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.data.description.data_warning import DataWarning
from recsys.data.schema import Schema
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.tasks import Task

# From these values on, there is a warning.
GIVEN_AWAY = {"auc": 0.98, "r2": 0.95, "errors_saved": 0.95}
_MEASURES = {"binary": "auc", "regression": "r2", "multiclass": "errors_saved"}
_BINS = 64
# Labels of each class in validation; of fewer, a value may be chance.
_FEWEST = 20


def describe_giveaways(
    train: pd.DataFrame, validation: pd.DataFrame, schema: Schema
) -> JsonObject:
    """Returns how well each feature alone predicts each label.

    The prediction for a row is the mean label, of a multiclass task the most
    frequent one, of the training rows with the same value; numbers count as
    the same between two of 64 quantiles, and missing is a value. It is
    measured in validation, so that ids that are other in each row say
    nothing.

    Args:
        train: A sample of the training split.
        validation: A sample of the validation split.
        schema: What the columns mean. Lists and vectors are left out.

    Returns:
        By task, the "measure" ("auc", of a regression "r2", of classes
        "errors_saved", the share of the errors of the commonest class that
        are avoided) and its value by feature, the best first.

    Example:
    >>> rows = pd.DataFrame(
    ...     {"age": [18.0, 30.0] * 40, "paid": [0.0, 3.5] * 40}
    ... )
    >>> rows["click"] = (rows["paid"] > 0).astype(float)
    >>> schema = Schema("log", {"paid": "number"}, {"click": "binary"})
    >>> describe_giveaways(rows, rows, schema)
    {'click': {'measure': 'auc', 'features': {'paid': 1.0}}}
    """
    groups = {
        name: _groups(train[name], validation[name])
        for name in schema.features
        if not _is_list(train[name]) and not _is_list(validation[name])
    }
    described = {}
    for task, kind in schema.tasks.items():
        labels = train[task].to_numpy(float), validation[task].to_numpy(float)
        if kind.type not in _MEASURES or not _measurable(*labels, kind):
            continue
        values = {
            name: _value(kind, *labels, *codes)
            for name, codes in groups.items()
        }
        best = sorted(values, key=lambda name: -values[name])
        described[task] = {
            "measure": _MEASURES[kind.type],
            "features": {name: round(values[name], 4) for name in best},
        }
    return described


def warnings_of_giveaways(
    giveaways: Mapping[str, JsonMapping],
) -> Iterator[DataWarning]:
    """Yields each label that one feature nearly gives away.

    Args:
        giveaways: What `describe_giveaways` returns.
    """
    for task, facts in giveaways.items():
        measure = facts["measure"]
        for name, value in facts["features"].items():
            if value >= GIVEN_AWAY[measure]:
                shown = measure.replace("_", " ").replace("auc", "AUC")
                yield DataWarning(
                    "given away",
                    f"{name!r} alone nearly gives {task!r} away "
                    f"({shown} {value:.4f} in validation)",
                    "Leave it out of dataset.json if it is known only after "
                    "the label, such as the price that was paid",
                )


def _measurable(fit: np.ndarray, check: np.ndarray, kind: Task) -> bool:
    fit, check = fit[~np.isnan(fit)], check[~np.isnan(check)]
    if len(fit) < _FEWEST or len(check) < _FEWEST:
        return False
    if kind.type == "regression":
        return bool(np.ptp(check) > 0)
    counts = np.unique(check, return_counts=True)[1]
    return len(counts) > 1 and bool(np.sort(counts)[-2] >= _FEWEST)


def _groups(
    train: pd.Series, validation: pd.Series
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers the values, 0 for missing; numbers by their quantiles."""
    if pd.api.types.is_float_dtype(train):
        known = train.dropna().to_numpy()
        borders = np.empty(0)
        if len(known):
            shares = np.linspace(0, 1, _BINS + 1)
            borders = np.unique(np.quantile(known, shares))
        return tuple(
            np.where(
                np.isnan(numbers := column.to_numpy(float)),
                0,
                # A value that many rows have is a border: on its own.
                np.searchsorted(borders, numbers, "left")
                + np.searchsorted(borders, numbers, "right")
                + 1,
            )
            for column in (train, validation)
        )  # type: ignore[return-value]
    both = pd.concat([train, validation], ignore_index=True)
    codes = pd.factorize(both)[0] + 1
    return codes[: len(train)], codes[len(train) :]


def _value(
    kind: Task,
    fit: np.ndarray,
    check: np.ndarray,
    fit_groups: np.ndarray,
    check_groups: np.ndarray,
) -> float:
    from sklearn.metrics import r2_score
    from sklearn.metrics import roc_auc_score

    in_fit, in_check = ~np.isnan(fit), ~np.isnan(check)
    rows = pd.Series(fit[in_fit]).groupby(fit_groups[in_fit])
    truth, places = check[in_check], pd.Series(check_groups[in_check])
    if kind.type == "multiclass":
        commonest = float(pd.Series(fit[in_fit]).mode().iloc[0])
        best = rows.agg(lambda labels: labels.mode().iloc[0])
        guesses = places.map(best).fillna(commonest).to_numpy()
        errors = np.mean(truth != commonest)
        return float(1 - np.mean(truth != guesses) / errors) if errors else 0.0
    guesses = places.map(rows.mean()).fillna(fit[in_fit].mean()).to_numpy()
    score = roc_auc_score if kind.type == "binary" else r2_score
    return float(score(truth, guesses))


def _is_list(column: pd.Series) -> bool:
    known = column.dropna()
    return isinstance(column.dtype, pd.ArrowDtype) or (
        bool(len(known)) and isinstance(known.iloc[0], np.ndarray)
    )
