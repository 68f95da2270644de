"""Adaptive weights of the tasks' losses, one method a file, by name.

A method sees the loss of each task in a step, times its fixed weight, and
where it asks for them the products of their gradients. It returns a weight for
each of them, and the step follows the gradient of the weighted sum.
"""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING
from typing import Any

from recsys.config.weightings import WEIGHTINGS as WEIGHTINGS

if TYPE_CHECKING:
    from recsys.weighting.task_weighting import TaskWeighting


def create_weighting(
    name: str, task_weights: Mapping[str, float], **options: Any
) -> "TaskWeighting":
    """Creates a method of weighing.

    Args:
        name: One of `WEIGHTINGS`.
        task_weights: The fixed weight of each task's loss.
        **options: Those of `TaskWeighting` and of the method.
    """
    kind: type[TaskWeighting] = resolve_name(WEIGHTINGS[name])
    return kind(task_weights, **options)
