from recsys.tasks.task import Task


class Multiclass(Task):
    """A class 0, 1, 2, ... as a label."""

    type = "multiclass"
    of_tables = False
