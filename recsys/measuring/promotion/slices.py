"""Slices of rows in which a new model does worst, found by a tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.task_checks import calibration_check
from recsys.metrics.paired_difference import mean_estimate

_DEPTH = 3
_LEAST_ROWS = 200  # Of a slice, of those that the tree is fitted on.
_LEAST_SHARE = 0.01
_VALUES = 10  # Frequent values of a category that a slice can ask for.


@dataclass(frozen=True)
class Slice:
    """Some of the rows.

    Attributes:
        name: The conditions that the rows fulfil.
        chosen: Boolean array `(N,)`: the rows that the tree was not fitted on.
    """

    name: str
    chosen: npt.NDArray[np.bool_]


def slice_features(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns numbers by which rows can be cut, by a condition's name.

    Args:
        rows: Features. Numbers stay; of categories, such as ids, it is how
            often their value occurs, and whether it is one of the ten most
            frequent; of lists it is their length.
    """
    columns: dict[str, Any] = {}
    for name, column in rows.items():
        if pd.api.types.is_float_dtype(column):
            columns[str(name)] = column.to_numpy(np.float64)
            columns[f"{name} is missing"] = column.isna().to_numpy(float)
        elif len(column) and isinstance(column.iloc[0], list | np.ndarray):
            lengths = [0 if x is None else len(x) for x in column]
            columns[f"length of {name}"] = lengths
        else:
            counts = column.value_counts()
            often = column.map(counts).fillna(0)
            columns[f"rows with the same {name}"] = often.to_numpy(float)
            for value in counts.index[:_VALUES]:
                same = (column == value).fillna(False).to_numpy(float)
                columns[f"{name} is {value}"] = same
    return pd.DataFrame(columns, index=rows.index)


def worst_slices(task: ScoredTask, features: pd.DataFrame) -> list[Slice]:
    """Finds rows for which the new model's loss rises most.

    A regression tree cuts one half of the groups by the change of the loss;
    its leaves are measured on the other half, which did not choose them.

    Args:
        task: The task.
        features: As `slice_features` returns them, for its rows.

    Returns:
        All leaves, the one with the largest increase on the half that chose
        them first.
    """
    from sklearn.tree import DecisionTreeRegressor

    half = _half_of_groups(task)
    change = task.losses(task.new) - task.losses(task.old)
    if half.sum() < 2 * _LEAST_ROWS or not features.shape[1]:
        return []
    least = max(_LEAST_ROWS, int(_LEAST_SHARE * half.sum()))
    tree = DecisionTreeRegressor(
        max_depth=_DEPTH, min_samples_leaf=least, random_state=0
    )
    values = features.fillna(0).to_numpy(np.float32)
    tree.fit(values[half], change[half], sample_weight=task.weights[half])
    leaves = tree.apply(values)
    names = dict(_leaf_names(tree.tree_, [*features]))
    pairs = []
    for leaf, name in names.items():
        inside = leaves == leaf
        chosen = inside & ~half
        if chosen.any() and task.weights[inside & half].sum() > 0:
            fitted = mean_estimate(
                change[inside & half], task.weights[inside & half]
            )
            pairs.append((fitted.value, Slice(name, chosen)))
    pairs.sort(key=lambda pair: -pair[0])
    return [slice for _, slice in pairs]


def _half_of_groups(task: ScoredTask) -> npt.NDArray[np.bool_]:
    """The rows of every second group, drawn."""
    generator = np.random.default_rng(0)
    if task.groups is None:
        return generator.random(len(task.labels)) < 0.5
    drawn = generator.random(int(task.groups.max(initial=0)) + 1) < 0.5
    return drawn[task.groups]


def _leaf_names(tree: Any, features: list[str]) -> Iterator[tuple[int, str]]:
    """The conditions on the way to each leaf of a tree of scikit-learn."""

    def below(node: int, conditions: list[str]) -> Iterator[tuple[int, str]]:
        left, right = tree.children_left[node], tree.children_right[node]
        if left == right:  # A leaf.
            yield node, " and ".join(conditions) or "all rows"
            return
        feature = features[tree.feature[node]]
        limit = float(tree.threshold[node])
        if " is " in feature and 0 < limit < 1:
            what = feature.replace(" is ", " is not ", 1), feature
        else:
            what = f"{feature} <= {limit:g}", f"{feature} > {limit:g}"
        yield from below(left, [*conditions, what[0]])
        yield from below(right, [*conditions, what[1]])

    return below(0, [])


def slice_checks(
    task: ScoredTask, features: pd.DataFrame, rules: PromotionRules
) -> list[Check]:
    """Checks loss and calibration in the slices where the new model is worst.

    Args:
        task: The task.
        features: As `slice_features` returns them, for its rows.
        rules: What is allowed.

    Returns:
        A check of the loss in each slice, the worst one first, and of a binary
        task's calibration.
    """
    slices = worst_slices(task, features)
    checks = []
    for slice in slices:
        inside = task.of_rows(slice.chosen)
        if not inside.weights.sum() > 0:
            continue
        old = mean_estimate(inside.losses(inside.old), inside.weights)
        new = mean_estimate(inside.losses(inside.new), inside.weights)
        if not old.value > 0:
            continue
        change = new.relative_to(old)
        confidence = 1 - (1 - rules.confidence) / len(slices)
        ends = change.interval(confidence, inside.groups)
        checks.append(
            Check(
                "slices",
                f"loss of {task.name} where {slice.name}",
                ends[0] <= rules.most_slice_increase,
                change.value,
                rules.most_slice_increase,
                ends,
                {
                    "old": old.value,
                    "new": new.value,
                    "rows": int(slice.chosen.sum()),
                },
            )
        )
        if task.kind == "binary":
            checks.append(
                calibration_check(
                    inside, f"where {slice.name}", rules, len(slices)
                )
            )
    return checks
