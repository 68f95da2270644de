import json
import re
from collections.abc import Iterable
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import fields

from recsys.data.columns import FEATURE_TYPES
from recsys.data.columns import TASK_TYPES
from recsys.data.error import DataError
from recsys.data.error import shown
from recsys.json_files import parse_json
from recsys.nearest import did_you_mean
from recsys.reading import reading

IMAGE = "image"
IMAGE_TASK_TYPES = ("binary", "multiclass")

# Metrics, figures and TensorFlow's scopes are named after tasks.
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VALIDATION = "val_"
# What a history, or another table of results, has beside the tasks.
_RESERVED = (
    "epoch",
    "loss",
    "val",
    "val_loss",
    "lr",
    "learning_rate",
    "seconds",
    "rows",
    "total",
    "experts_per_example",
)


@dataclass(frozen=True)
class Schema:
    """What the columns of a data set mean: the content of `dataset.json`.

    Args:
        name: Name of the data set.
        features: Input columns, each with its type: `"id"` (integers or
            strings, only equality counts) or `"number"`; or one `"image"`
            alone.
        tasks: Label columns, each with its type: `"binary"` (0 or 1) or
            `"regression"` (numbers up to 1e15); of images, `"binary"` or
            `"multiclass"` (a class 0, 1, 2, ...).

    Tasks name metrics, figures and the columns of `history.csv`: they consist
    of letters, digits, `_`, `.` and `-`, are none of the names that a history
    has anyway, and do not begin with `val_`, as its columns of the validation
    split do.

    Raises:
        DataError: A name, a type or a structure is not one of the above, or
            a column is both a feature and a task.

    Example:
    >>> schema = Schema("films", {"user": "id"}, {"watch": "binary"})
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    name: str
    features: dict[str, str]
    tasks: dict[str, str]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise DataError.at("'name'", "a text", shown(self.name))
        _check_types("features", self.features, (*FEATURE_TYPES, IMAGE))
        if self.holds_images and len(self.features) > 1:
            raise DataError.at(
                "'features'", "an image alone", str(list(self.features))
            )
        task_types = IMAGE_TASK_TYPES if self.holds_images else TASK_TYPES
        _check_types("tasks", self.tasks, task_types)
        if both := self.features.keys() & self.tasks.keys():
            raise DataError.at(
                "'tasks'", "columns that are not features", str(sorted(both))
            )
        for task in self.tasks:
            _check_task_name(task)

    @property
    def holds_images(self) -> bool:
        """Whether the rows are images rather than those of a table."""
        return IMAGE in self.features.values()

    @property
    def columns(self) -> list[str]:
        """Names of the features, then of the tasks."""
        return [*self.features, *self.tasks]

    @classmethod
    def from_json(cls, text: str, file: object = "dataset.json") -> "Schema":
        """Reads the text of a `dataset.json`.

        Args:
            text: The JSON text.
            file: Where the text comes from, for the error message.

        Returns:
            The schema.

        Raises:
            DataError: The text is not JSON, or not a valid schema, or has a
                key that a schema does not have.
        """
        content = parse_json(text, file, DataError)
        keys = [field.name for field in fields(cls)]
        if not isinstance(content, dict):
            raise DataError.at(file, "a JSON object", shown(content))
        if unknown := [key for key in content if key not in keys]:
            raise DataError.at(
                file,
                f"the keys {keys}{did_you_mean(unknown[0], keys)}",
                shown(unknown[0]),
            )
        if missing := [key for key in keys if key not in content]:
            raise DataError.at(file, f"the keys {keys}", f"no {missing[0]!r}")
        with reading(file, "a schema", DataError):
            return cls(**{key: content[key] for key in keys})

    def to_json(self) -> str:
        """Returns the text of a `dataset.json`."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def _check_types(what: str, columns: object, known: Iterable[str]) -> None:
    if not isinstance(columns, dict) or not columns:
        raise DataError.at(
            f"'{what}'", "column names with a type each", shown(columns)
        )
    for column, kind in columns.items():
        if not isinstance(column, str) or not column.strip():
            raise DataError.at(
                f"'{what}'", "columns named by a text", shown(column)
            )
        if not isinstance(kind, str) or kind not in known:
            raise DataError.at(
                f"'{what}'",
                f"one of the types {sorted(known)}",
                shown(kind),
                column=column,
            )


def _check_task_name(task: str) -> None:
    if not _TASK_NAME.fullmatch(task):
        expected = "tasks named by letters, digits, `_`, `.` and `-`"
    elif task.lower() in _RESERVED:
        expected = f"tasks with other names than {', '.join(_RESERVED)}"
    elif task.lower().startswith(_VALIDATION):
        expected = (
            f"tasks whose names do not begin with {_VALIDATION!r}, as the "
            "columns of the validation split in history.csv do"
        )
    else:
        return
    raise DataError.at("'tasks'", expected, shown(task))
