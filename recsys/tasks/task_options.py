"""Options of tasks that are given beside their data set."""

from collections.abc import Mapping

from recsys.columns.kind import declared
from recsys.errors import DataError
from recsys.errors.arguments import typed_arguments
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.tasks import TASKS
from recsys.tasks import Task

_WHAT = "`task_options`"


def typed_task_options(
    options: Mapping[str, object], tasks: Mapping[str, Task]
) -> dict[str, object]:
    """Gives the texts among options of tasks their types, and checks them.

    Args:
        options: Values by "<task>.<option>"; texts are read as the option's
            type.
        tasks: The tasks of the data set.

    Raises:
        ValueError: There is no such task, or its kind has no such option, or
            the option cannot be that.

    Example:
    >>> typed_task_options({"buy.pos_weight": "10"}, {"buy": TASKS["binary"]()})
    {'buy.pos_weight': 10.0}
    """
    typed = {}
    for name, value in options.items():
        # Names of tasks may have dots, those of options have none.
        task, separator, option = name.rpartition(".")
        if not separator:
            raise ValueError(
                f"{_WHAT} must be named TASK.OPTION, such as "
                f"{next(iter(tasks))}.pos_weight. Received: {shown(name)}"
            )
        if task not in tasks:
            raise ValueError(
                f"{_WHAT} must be for the tasks {[*tasks]}"
                f"{did_you_mean(task, tasks)}. Received: {shown(task)}"
            )
        kind = tasks[task]
        fields = type(kind).model_fields.items()
        hints = {
            name: field.annotation
            for name, field in fields
            if name not in kind.of_labels
        }
        what = f"{_WHAT} of the task {task!r}"
        typed[name] = typed_arguments(what, {option: value}, hints)[option]
    with_task_options(tasks, typed)
    return typed


def with_task_options(
    tasks: Mapping[str, Task], options: Mapping[str, object]
) -> dict[str, Task]:
    """Returns tasks with options that take the place of their own.

    Args:
        tasks: The tasks of a data set.
        options: What `typed_task_options` returns.

    Raises:
        ValueError: An option cannot be that.
    """
    changes: dict[str, dict[str, object]] = {}
    for name, value in options.items():
        task, _, option = name.rpartition(".")
        changes.setdefault(task, {})[option] = value
    changed = dict(tasks)
    try:
        for task, options_of_task in changes.items():
            kind = tasks[task]
            declaration = {
                "type": kind.type,
                **kind.model_dump(),
                **options_of_task,
            }
            changed[task] = declared(declaration, TASKS, _WHAT, task)
        for task in changes:
            changed[task].check_among(changed, task)
    except DataError as error:  # Not of the data: of who gave the options.
        raise ValueError(str(error)) from None
    return changed
