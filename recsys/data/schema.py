import json
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import MISSING
from dataclasses import dataclass
from dataclasses import field
from dataclasses import fields
from dataclasses import replace
from pathlib import Path
from typing import Any
from typing import TypeVar

from recsys.columns.kind import Declaration
from recsys.columns.kind import Kind
from recsys.columns.kind import declarations
from recsys.columns.kind import declared
from recsys.data.roles import LEAST_PROPENSITY
from recsys.data.roles import check_item_roles
from recsys.data.roles import check_log_roles
from recsys.data.roles import check_row_roles
from recsys.data.roles import check_scenario
from recsys.data.roles import found_id
from recsys.data.row_time import RowTime
from recsys.data.schema_names import check_task_name
from recsys.data.schema_names import checked_columns
from recsys.data.schema_names import checked_list
from recsys.data.schema_names import checked_name
from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.features import FEATURES
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Image
from recsys.files.json_files import parse_json
from recsys.tasks import TASKS
from recsys.tasks import RowRoles
from recsys.tasks import Task
from recsys.tasks.log_columns import RowPosition
from recsys.tasks.log_columns import RowPropensity
from recsys.tasks.row_roles import DEFAULT_K
from recsys.tasks.row_weight import RowWeight
from recsys.tasks.row_weight import RowWeights
from recsys.tasks.row_weight import Weighing
from recsys.tasks.row_weight import columns_of

AnyColumn = TypeVar("AnyColumn", Feature, Task)


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
        scenario: Id feature that says where a row is from, such as its
            country or the page: an option of `recsys train` fits the model to
            each, and metrics are also given for each. None unless given.
        position: Column beside the features and tasks with the place in which
            a row was shown, 1 for the first; an option of `recsys train` fits
            a position tower. Missing in rows that were not shown. None unless
            given.
        propensity: Column beside the features and tasks with the probability
            with which the log shows a row: losses and metrics weigh rows by
            its inverse, and rows without one by 0. None unless given.
        least_propensity: Smaller propensities count as this one. Defaults to
            0.01.
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
    scenario: str | None = None
    position: str | None = None
    propensity: str | None = None
    least_propensity: float | None = None
    file: Path | None = field(default=None, compare=False, repr=False)

    # It takes declarations, and the fields are the kinds that they stand for.
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
        scenario: str | None = None,
        position: str | None = None,
        propensity: str | None = None,
        least_propensity: float | None = None,
        file: Path | None = None,
    ) -> None:
        checked_name("name", name, "a text")
        features = checked_columns("features", features)
        tasks = checked_columns("tasks", tasks)
        roles = {"group": group, "weight": weight, "time": time, "item": item}
        of_log = {"position": position, "propensity": propensity}
        named = {**roles, "user": user, "scenario": scenario, **of_log}
        for role, column in named.items():
            if column is not None:
                checked_name(role, column, "a column's name")
        if item_features is not None:
            item_features = checked_list("item_features", item_features)
        inputs = _kinds("features", features, FEATURES)
        images = any(isinstance(kind, Image) for kind in inputs.values())
        if images and len(inputs) > 1:
            raise DataError.at("'features'", "an image alone", str([*inputs]))
        labels = _kinds(
            "tasks",
            tasks,
            {
                name: kind
                for name, kind in TASKS.items()
                if kind.of_images or not images
            },
        )
        if both := inputs.keys() & labels.keys():
            raise DataError.at(
                "'tasks'", "columns that are not features", str(sorted(both))
            )
        for task in labels:
            check_task_name(task)
        check_row_roles(group, weight, time, inputs, labels)
        check_item_roles(item, item_features, user, inputs)
        check_scenario(scenario, inputs)
        check_log_roles(
            of_log,
            least_propensity,
            [*inputs, *labels, group, weight, time],
            images,
        )
        vars(self).update(
            roles | of_log,
            name=name,
            features=inputs,
            tasks=labels,
            item_features=item_features,
            user=user,
            scenario=scenario,
            least_propensity=least_propensity,
            file=file,
        )

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
        if self.position is not None:
            columns[self.position] = RowPosition()
        if self.propensity is not None:
            columns[self.propensity] = RowPropensity()
        if self.time is not None:
            columns[self.time] = RowTime(feature=columns.get(self.time))
        return columns

    @property
    def truth_columns(self) -> list[str]:
        """Columns of metrics: tasks, group, weights and scenario.

        Exact metrics look at all rows together, but not at other features.
        """
        roles = (self.group, *columns_of(self.row_weights), self.scenario)
        named = [name for name in roles if name is not None]
        return list(dict.fromkeys([*self.tasks, *named]))

    @property
    def row_weights(self) -> Weighing:
        """What says what rows count: weights and propensities, if any."""
        if self.propensity is None:
            return self.weight
        least = self.least_propensity or LEAST_PROPENSITY
        return RowWeights(self.weight, self.propensity, least)

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
        return RowRoles.of(rows, self.row_weights, self.group, k)

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
            _check_keys(content)
            return cls(**content)

    def to_json(self) -> str:
        """Returns the text of a `dataset.json`."""
        content = {key: getattr(self, key) for key in _keys()}
        content["features"] = declarations(self.features)
        content["tasks"] = declarations(self.tasks)
        given = {
            key: value for key, value in content.items() if value is not None
        }
        return json.dumps(given, indent=2, ensure_ascii=False) + "\n"


def _keys(needed: bool = False) -> list[str]:
    """The keys of a `dataset.json`: all fields, or those without a default."""
    return [
        key.name
        for key in fields(Schema)
        if key.name != "file" and (key.default is MISSING or not needed)
    ]


def _check_keys(content: Iterable[str]) -> None:
    """Raises DataError where a key is unknown, or one is missing."""
    keys, needed = _keys(), _keys(needed=True)
    for key in content:
        if key not in keys:
            hint = did_you_mean(key, keys)
            raise DataError(
                f"expected the keys {keys}{hint}. Received: {shown(key)}"
            )
    for key in needed:
        if key not in content:
            raise DataError(f"expected the keys {needed}. Received: no {key!r}")


def _kinds(
    key: str,
    columns: Mapping[str, Declaration | AnyColumn],
    kinds: Mapping[str, type[AnyColumn]],
) -> dict[str, AnyColumn]:
    """Returns the kinds of columns, each checked among the others."""
    of_columns = {
        column: declared(declaration, kinds, f"'{key}'", column)
        for column, declaration in columns.items()
    }
    for column, kind in of_columns.items():
        kind.check_among(of_columns, column)
    return of_columns
