from collections.abc import Iterator

import numpy as np

from recsys.data import Dataset
from recsys.errors import FileError
from recsys.measuring.policy import Policy
from recsys.measuring.policy import choices_of
from recsys.measuring.promotion.check import Check
from recsys.measuring.promotion.policy_checks import policy_checks
from recsys.measuring.promotion.rules import PromotionRules
from recsys.measuring.promotion.scored_task import ScoredTask
from recsys.retrieval.formula import Formula
from recsys.serving.tensor_spec import Arrays


def value_checks(
    of_old: Arrays,
    of_new: Arrays,
    dataset: Dataset,
    split: str,
    tasks: list[ScoredTask],
    rules: PromotionRules,
) -> Iterator[Check]:
    """Yields the checks of the off-policy value.

    The expected rewards of the doubly robust estimate are the mean of both
    models' predictions, so that it favours neither.

    Args:
        of_old: What the old model predicts for all rows of the split, those
            without a label included: they are candidates.
        of_new: The same of the new one.
        dataset: The data of the day; without a group and a propensity, there
            are no such checks.
        split: Name of its split.
        tasks: The tasks of both models that have a label.
        rules: What is allowed.

    Raises:
        DataError: No row has a group, a propensity and a reward.
        FileError: `policy_reward` is no such task, or `policy_score` no
            formula of both models' predictions.
    """
    schema = dataset.schema
    if schema.group is None or schema.propensity is None:
        return
    rewards = [task.name for task in tasks if task.kind != "multiclass"]
    reward = rules.policy_reward or next(iter(rewards), None)
    if reward is None:
        return
    if reward not in rewards:
        raise FileError.at(
            "the rules",
            f"a policy_reward of {rewards}, tasks of both models with labels",
            repr(reward),
        )
    names = [
        name
        for name, values in of_new.items()
        if values.ndim == 1 and name in of_old
    ]
    policy = Policy(
        reward, rules.policy_score or f"`{reward}`", rules.policy_top
    )
    try:
        formula = Formula(policy.score, names)
    except ValueError as error:
        raise FileError(f"the rules: policy_score: {error}") from None
    rows = dataset.split(split)
    expected = (of_old[reward] + of_new[reward]) / 2
    old, new = (
        choices_of(
            rows,
            schema,
            policy,
            np.broadcast_to(formula(outputs), len(rows)),
            expected,
        )
        for outputs in (of_old, of_new)
    )
    yield from policy_checks(old, new, rules)
