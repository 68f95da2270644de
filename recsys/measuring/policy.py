from dataclasses import asdict
from dataclasses import dataclass

import numpy as np

from recsys.data import Split
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.errors.shown import did_you_mean
from recsys.files.json_files import JsonObject
from recsys.measuring.clusters import clusters_of
from recsys.measuring.measuring import scores_of
from recsys.metrics.off_policy import LoggedChoices
from recsys.metrics.off_policy import policy_values
from recsys.metrics.off_policy import top_chances
from recsys.models.multi_task_model import MultiTaskModel
from recsys.retrieval.formula import Formula


@dataclass(frozen=True)
class Policy:
    """What a model would show: the best rows of each request.

    Attributes:
        reward: The task whose labels are the rewards.
        score: What rows are ranked by, a formula over the predictions.
        top: How many rows of a request are shown.
        largest_weight: Bound of chance / propensity; `None` for none.
    """

    reward: str
    score: str
    top: int = 1
    largest_weight: float | None = None


def measure_policy(
    model: MultiTaskModel, dataset: AnyDataset, split: str, policy: Policy
) -> JsonObject:
    """Returns the value of a policy by the log of another one.

    Args:
        model: The model.
        dataset: Data that fit it, with a group and a propensity.
        split: Name of a split, on which the model was not trained.
        policy: The policy.

    Returns:
        As `recsys.off_policy`.

    Raises:
        DataError: The data have no group or no propensity, or no row has one.
        ValueError: The score is no formula, or the reward no task.
    """
    schema = dataset.schema
    _roles(schema)
    _check_reward(model, policy.reward)
    names = [*model.columns(model.no_predictions())]
    try:
        formula = Formula(policy.score, names)
    except ValueError as error:
        raise ValueError(f"`score`: {error}") from None
    rows = dataset.split(split)
    predictions = model.columns(scores_of(model, rows).predictions)
    scores = np.broadcast_to(formula(predictions), len(rows))
    choices = choices_of(
        rows, schema, policy, scores, predictions[policy.reward]
    )
    return {
        **asdict(policy),
        "requests": choices.num_requests,
        "clusters": len(np.unique(choices.clusters)),
        "shown_rows": int(choices.shown.sum()),
        "effective_rows": choices.effective_rows,
        "values": {
            name: {
                "value": estimate.value,
                "interval": estimate.interval and list(estimate.interval),
            }
            for name, estimate in policy_values(choices).items()
        },
    }


def choices_of(
    rows: Split,
    schema: Schema,
    policy: Policy,
    scores: np.ndarray,
    predicted: np.ndarray,
) -> LoggedChoices:
    """Returns what a log says, and what a policy would have shown.

    Args:
        rows: A split, with candidates that were not shown.
        schema: What its columns mean.
        policy: The policy.
        scores: What it ranks the rows by, `(N,)`.
        predicted: Rewards that are expected of the rows, `(N,)`.

    Raises:
        DataError: The data have no group or no propensity, or no row has one.
    """
    (group, propensity), user = _roles(schema), schema.user_id
    columns = [*schema.truth_columns, *([] if user is None else [user])]
    truth = rows[[*dict.fromkeys(columns)]]
    belongs = truth[group].notna().to_numpy()
    truth, requests = truth[belongs], truth[group][belongs]
    propensities = truth[propensity].to_numpy(np.float64)
    labels = truth[policy.reward].to_numpy(np.float64)
    shown = ~np.isnan(propensities) & ~np.isnan(labels)
    if not shown.any():
        raise DataError.at(
            schema.place,
            f"rows with a group, a propensity and a label of {policy.reward!r}",
            "none",
        )
    ranked_by = np.nan_to_num(scores[belongs], nan=-np.inf)
    return LoggedChoices.of(
        requests,
        np.where(shown, labels, np.nan),
        propensities,
        top_chances(ranked_by, requests, policy.top),
        predicted[belongs],
        None if user is None else clusters_of(truth[user]),
        policy.largest_weight,
    )


def _roles(schema: Schema) -> tuple[str, str]:
    """The columns of requests and of propensities."""
    if schema.group is None or schema.propensity is None:
        role = "group" if schema.group is None else "propensity"
        raise DataError.at(
            schema.place,
            f"a {role!r} in dataset.json, for the value of a policy",
            "none",
        )
    return schema.group, schema.propensity


def _check_reward(model: MultiTaskModel, reward: str) -> None:
    tasks = [task for task in model.tasks if task not in model.num_classes]
    if reward not in tasks:
        raise ValueError(
            f"`reward` must be a binary or regression task, of {tasks}"
            f"{did_you_mean(reward, tasks)}. Received: reward={reward!r}"
        )
