from typing import Annotated
from typing import Literal

from pydantic import ConfigDict
from pydantic import Field
from pydantic.dataclasses import dataclass

from recsys.errors.clear_errors import with_clear_errors

_Share = Annotated[float, Field(ge=0, le=1)]
_Ratio = Annotated[float, Field(gt=0, le=1e6)]


@with_clear_errors
@dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class PromotionRules:
    """What a new model must show to take over.

    Intervals are two-sided and paired; where several things are compared at
    once, tasks or slices, each has its share of `1 - confidence`.

    Args:
        confidence: Of the intervals.
        improved: How many tasks must have a lower loss, the upper end of the
            interval below `-least_improvement`: `"any"`, `"all"` or `"none"`.
        least_improvement: Relative decrease of the loss that counts.
        most_loss_increase: Relative increase of a task's loss that no upper
            end may exceed.
        most_retrieval_drop: Relative decrease of recall or NDCG of the
            retrieval that no lower end may exceed.
        policy_reward: Task whose labels are the rewards of the off-policy
            value; the first binary or regression task unless given.
        policy_score: What rows of a request are ranked by, a formula over the
            predictions; the prediction of the reward unless given.
        policy_top: How many rows of a request are shown.
        policy_estimator: `"ips"`, `"snips"` or `"doubly_robust"`.
        most_value_drop: Relative decrease of the off-policy value that no
            lower end may exceed.
        least_effective_rows: Of the new policy: how many shown rows of equal
            weight would be as precise.
        most_calibration_error: Of a binary task: how far the mean prediction
            may be from the mean label, relatively; no interval may lie
            beyond, in all rows or in a slice.
        most_slice_increase: Relative increase of a task's loss in a slice; no
            interval may lie above.
        most_psi: Population stability index of a feature or of a task's
            labels or predictions, between training and the day.
        most_unknown_increase: How much larger the share of rows with an id
            that the training split lacks may be on the day than on the
            validation split.
        drift_level: Corrected p-value below which a drift counts at all.
        most_latency_ratio: New by old median latency.
        most_size_ratio: New by old size of the export.

    Raises:
        TypeError: A rule has a value of another type.
        ValueError: A rule is out of bounds.

    Example:
    >>> PromotionRules(confidence=2.0)
    Traceback (most recent call last):
    ...
    ValueError: `confidence` must be below 1. Received: confidence=2.0
    """

    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    improved: Literal["any", "all", "none"] = "any"
    least_improvement: _Share = 0.0
    most_loss_increase: _Share = 0.01
    most_retrieval_drop: _Share = 0.05
    policy_reward: str | None = None
    policy_score: str | None = None
    policy_top: Annotated[int, Field(ge=1, le=10**6)] = 1
    policy_estimator: Literal["ips", "snips", "doubly_robust"] = "doubly_robust"
    most_value_drop: _Share = 0.05
    least_effective_rows: Annotated[float, Field(ge=0, le=1e15)] = 100.0
    most_calibration_error: _Ratio = 0.1
    most_slice_increase: _Ratio = 0.05
    most_psi: _Ratio = 0.25
    most_unknown_increase: _Share = 0.2
    drift_level: Annotated[float, Field(gt=0, lt=1)] = 0.01
    most_latency_ratio: _Ratio = 1.5
    most_size_ratio: _Ratio = 2.0
