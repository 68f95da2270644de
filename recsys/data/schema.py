import json
import re
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from typing import Any

from pydantic import BaseModel
from pydantic import BeforeValidator
from pydantic import ConfigDict
from pydantic import Field
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from recsys.columns.kind import AnyKind
from recsys.columns.kind import Declaration
from recsys.columns.kind import Kind
from recsys.columns.kind import declarations
from recsys.columns.kind import declared
from recsys.data.item_roles import check_item_roles
from recsys.data.item_roles import found_id
from recsys.data.row_time import RowTime
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shapes import UNKNOWN
from recsys.errors.shapes import WHOLE
from recsys.errors.shapes import described
from recsys.errors.shapes import expected_by
from recsys.errors.shapes import filled
from recsys.errors.shapes import first_error
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.features import FEATURES
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Image
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import parse_json
from recsys.tasks import TASKS
from recsys.tasks import RowRoles
from recsys.tasks import Task
from recsys.tasks.row_roles import DEFAULT_K
from recsys.tasks.row_weight import RowWeight

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


@dataclass(frozen=True, init=False)
class Schema:
    """Meaning of the columns of a data set: the content of `dataset.json`.

    Args:
        name: Name of the data set.
        features: Input columns, each with its kind, of `recsys.features`:
            `"id"` (integers or strings, only equality counts) or `"number"`;
            or one `"image"` alone.
        tasks: Label columns, each with its kind, of `recsys.tasks`:
            `"binary"` (0 or 1), `"multiclass"` (a class 0, 1, 2, ..., or a
            text) or, not of images, `"regression"` (numbers up to 1e15).
        group: Column that says which rows belong together (a user, a request)
            and are ranked against each other: an id feature, or a column
            beside the features and tasks. Rows without a value belong to
            none. None unless given.
        weight: Column beside the features and tasks with how much each row
            counts in every loss and metric: numbers of at least 0, none
            missing. Each row counts once unless given.
        time: Column with when each row was, none missing: numbers, dates or
            texts in ISO 8601. It is cut by where splits are taken off by
            time. A feature too where it is one of `features`, otherwise a
            column that the model does not see. None unless given.
        item: Id feature that says what is recommended, for retrieval. The id
            feature called "item" unless given.
        item_features: Features of the item, such as its genres; all others
            are of whom or what it is recommended to. Unless given, those that
            never differ between two rows of the same item in the training
            split. The last row of an item says what they are for it.
        user: Id feature that says whom items are recommended to. Unless
            given, the group where that is an id feature, or else the id
            feature called "user".
        file: Where the schema was read, for error messages. `None` (default)
            where it was made. Schemas that differ in this alone are equal.

    A kind is the name that `dataset.json` calls it by, or an object with the
    name as its `"type"` and options beside it, or an object of its class.

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
    features: dict[str, Feature]
    tasks: dict[str, Task]
    group: str | None = None
    weight: str | None = None
    time: str | None = None
    item: str | None = None
    item_features: list[str] | None = None
    user: str | None = None
    file: Path | None = field(default=None, compare=False, repr=False)

    def __init__(
        self,
        name: str,
        features: Mapping[str, Declaration | Feature],
        tasks: Mapping[str, Declaration | Task],
        group: str | None = None,
        weight: str | None = None,
        time: str | None = None,
        item: str | None = None,
        item_features: Sequence[str] | None = None,
        user: str | None = None,
        file: Path | None = None,
    ) -> None:
        frame = _framed(
            {
                "name": name,
                "features": features,
                "tasks": tasks,
                "group": group,
                "weight": weight,
                "time": time,
                "item": item,
                "item_features": item_features,
                "user": user,
            }
        )
        inputs = _declared("features", frame.features, FEATURES)
        for column, kind in inputs.items():
            kind.check_among(inputs, column)
        images = any(isinstance(kind, Image) for kind in inputs.values())
        if images and len(inputs) > 1:
            raise DataError.at("'features'", "an image alone", str([*inputs]))
        labels = _declared(
            "tasks",
            frame.tasks,
            {
                name: kind
                for name, kind in TASKS.items()
                if kind.of_images or not images
            },
        )
        for task, label in labels.items():
            label.check_among(labels, task)
        if both := inputs.keys() & labels.keys():
            raise DataError.at(
                "'tasks'", "columns that are not features", str(sorted(both))
            )
        for task in labels:
            _check_task_name(task)
        _check_roles(group, weight, time, inputs, labels)
        given = frame.item_features
        check_item_roles(item, given, user, inputs)
        for attribute, value in (
            ("name", name),
            ("features", inputs),
            ("tasks", labels),
            ("group", group),
            ("weight", weight),
            ("time", time),
            ("item", item),
            ("item_features", given),
            ("user", user),
            ("file", file),
        ):
            object.__setattr__(self, attribute, value)

    @property
    def place(self) -> str:
        """Name of the data set in errors."""
        name = f"data set {self.name!r}"
        return name if self.file is None else f"{name} of {self.file}"

    @property
    def holds_images(self) -> bool:
        """True if the rows are images, `False` if they are those of a table."""
        return any(isinstance(kind, Image) for kind in self.features.values())

    @property
    def item_id(self) -> str | None:
        """The feature that says what is recommended, `None` without one."""
        return self.item or found_id("item", self.features)

    @property
    def user_id(self) -> str | None:
        """The feature that says to whom, `None` without one."""
        given = self.user or found_id(self.group, self.features)
        return given or found_id("user", self.features)

    @property
    def columns(self) -> dict[str, Kind]:
        """Meaning of each column, features first."""
        columns: dict[str, Kind] = {**self.features, **self.tasks}
        if self.group is not None:
            columns.setdefault(self.group, Id())
        if self.weight is not None:
            columns[self.weight] = RowWeight()
        if self.time is not None:
            columns[self.time] = RowTime(feature=columns.get(self.time))
        return columns

    def with_tasks(self, tasks: Mapping[str, Task]) -> "Schema":
        """Returns the schema with other kinds of its tasks.

        Args:
            tasks: All tasks with their kind.
        """
        return replace(self, tasks=dict(tasks))

    def roles(self, rows: Any, k: int = DEFAULT_K) -> RowRoles:
        """Returns what rows count, and what they belong to.

        Args:
            rows: A split with these columns.
            k: How many rows of a group a ranking shows. Defaults to 10.
        """
        return RowRoles.of(rows, self.weight, self.group, k)

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
        if not isinstance(content, dict):
            raise DataError.at(file, "a JSON object", shown(content))
        with reading(file, "a schema", DataError):
            return cls(**dict(_framed(content)))

    def to_json(self) -> str:
        """Returns the text of a `dataset.json`."""
        content = {
            "name": self.name,
            "features": declarations(self.features),
            "tasks": declarations(self.tasks),
        }
        roles = {
            "group": self.group,
            "weight": self.weight,
            "time": self.time,
            "item": self.item,
            "item_features": self.item_features,
            "user": self.user,
        }
        content |= {
            role: column for role, column in roles.items() if column is not None
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _columns(value: Any) -> Any:
    """Refuses what has no column, before its names are looked at."""
    if not isinstance(value, dict) or not value:
        expected = "column names with a type each"
        raise PydanticCustomError("columns", expected)
    return value


_Name = Annotated[str, described("a text"), filled("a text"), WHOLE]
_Column = Annotated[
    str,
    described("columns named by a text"),
    filled("columns named by a text"),
    WHOLE,
]
_Columns = Annotated[dict[_Column, Any], BeforeValidator(_columns)]
_Role = (
    Annotated[
        str, described("a column's name"), filled("a column's name"), WHOLE
    ]
    | None
)


class _Frame(BaseModel):
    """The keys of a `dataset.json`, and what each is by itself."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: _Name
    features: _Columns
    tasks: _Columns
    group: _Role = None
    weight: _Role = None
    time: _Role = None
    item: _Role = None
    item_features: (
        Annotated[
            list[_Column], Field(strict=False), described("a list of columns")
        ]
        | None
    ) = None
    user: _Role = None


def _framed(content: JsonMapping) -> _Frame:
    """Checks the keys, and the type of what each says."""
    try:
        return _Frame.model_validate(content)
    except ValidationError as error:
        first = first_error(error)
    key, keys = first["loc"][0], [*_Frame.model_fields]
    if first["type"] in UNKNOWN:
        hint = did_you_mean(str(key), keys)
        raise DataError(
            f"expected the keys {keys}{hint}. Received: {shown(key)}"
        )
    if first["type"] == "missing":
        fields = _Frame.model_fields.items()
        needed = [name for name, field in fields if field.is_required()]
        raise DataError(f"expected the keys {needed}. Received: no {key!r}")
    raise DataError.at(
        f"'{key}'", expected_by(first, _Frame), shown(first["input"])
    )


def _declared(
    what: str, columns: JsonMapping, kinds: Mapping[str, type[AnyKind]]
) -> dict[str, AnyKind]:
    return {
        column: declared(declaration, kinds, f"'{what}'", column)
        for column, declaration in columns.items()
    }


def _check_roles(
    group: str | None,
    weight: str | None,
    time: str | None,
    features: Mapping[str, Feature],
    tasks: Mapping[str, Task],
) -> None:
    """Checks the columns that say what rows belong to, count, and when."""
    roles = {"group": group, "weight": weight, "time": time}
    for role, column in roles.items():
        if column is None:
            continue
        if any(isinstance(kind, Image) for kind in features.values()):
            raise DataError.at(
                f"'{role}'", "none, where the features are an image", column
            )
    if group is not None and (
        group in tasks or (group in features and not features[group].groups)
    ):
        raise DataError.at(
            "'group'",
            "an id feature, or a column that is neither a feature nor a task",
            shown(group),
        )
    if weight is not None and weight in (*features, *tasks, group):
        raise DataError.at(
            "'weight'",
            "a column that is neither a feature nor a task nor the group",
            shown(weight),
        )
    if time is not None and time in (*tasks, group, weight):
        raise DataError.at(
            "'time'",
            "a column that is neither a task nor the group nor the weight",
            shown(time),
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
