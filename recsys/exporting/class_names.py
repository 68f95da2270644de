from typing import TYPE_CHECKING

from recsys.tasks import Multiclass

if TYPE_CHECKING:
    from recsys.models.ranker import Ranker


def class_names(ranker: "Ranker") -> dict[str, list[str] | list[int]]:
    """Returns the classes of each multiclass task.

    Args:
        ranker: A trained ranker.

    Returns:
        By task, its classes in the order of its output: texts, or 0, 1, 2, ...
    """
    return {
        task: kind.class_names(ranker.num_classes.get(task))
        for task, kind in ranker.tasks.items()
        if isinstance(kind, Multiclass)
    }
