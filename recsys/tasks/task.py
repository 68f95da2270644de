from typing import ClassVar

from recsys.kind import Kind


class Task(Kind):
    """A kind of task: what a model may be asked to predict.

    Attributes:
        of_images: Whether images may have such a task.
        of_tables: Whether tables may.
    """

    of_images: ClassVar[bool] = True
    of_tables: ClassVar[bool] = True
