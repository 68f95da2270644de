import pandas as pd

from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.measuring.promotion.slices import worst_slices
from recsys.measuring.promotion.task_checks import calibration_check
from recsys.metrics.paired_difference import mean_estimate


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
