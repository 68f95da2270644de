"""The kinds of tasks, one file each, by what `dataset.json` calls them."""

from recsys.tasks.binary import Binary as Binary
from recsys.tasks.multiclass import Multiclass as Multiclass
from recsys.tasks.regression import Regression as Regression
from recsys.tasks.row_roles import RowRoles as RowRoles
from recsys.tasks.task import Task as Task

TASKS: dict[str, type[Task]] = {
    kind.type: kind for kind in (Binary, Multiclass, Regression)
}
