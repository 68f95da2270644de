"""Roles of columns: of rows, the item and the user, and of a log."""

from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence

from recsys.errors import DataError
from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown
from recsys.features import Feature
from recsys.features import Id
from recsys.features import Image
from recsys.tasks import Task

LEAST_PROPENSITY = 0.01


def found_id(name: str | None, features: Mapping[str, Feature]) -> str | None:
    """Returns the name of a feature if it is an id, otherwise `None`."""
    is_id = name is not None and isinstance(features.get(name), Id)
    return name if is_id else None


def check_item_roles(
    item: str | None,
    item_features: Sequence[str] | None,
    user: str | None,
    features: Mapping[str, Feature],
) -> None:
    """Checks what a schema says of items and users.

    Args:
        item: The feature that says what is recommended.
        item_features: The further features of it.
        user: The feature that says to whom.
        features: All features with their kind.

    Raises:
        DataError: One is no id feature, or no feature, or the item is also
            the user, or its own feature, or there is none that features
            could be of.
    """
    ids = [name for name in features if found_id(name, features)]
    for role, name in (("item", item), ("user", user)):
        if name is not None and name not in ids:
            raise DataError.at(f"'{role}'", f"an id feature, of {ids}", name)
    item = item or found_id("item", features)
    if item is not None and item == user:
        raise DataError.at("'user'", "another feature than the item", user)
    if item_features is None:
        return
    if item is None:
        raise DataError.at(
            "'item_features'", "an 'item' that they are of", "none"
        )
    candidates = [name for name in features if name not in (item, user)]
    for name in item_features:
        if name not in candidates:
            raise DataError.at(
                "'item_features'", f"features among {candidates}", shown(name)
            )


def check_log_roles(
    roles: Mapping[str, str | None],
    least_propensity: object,
    other_columns: Collection[str | None],
    images: bool = False,
) -> None:
    """Checks the position and the propensity.

    Args:
        roles: Columns by the key of `dataset.json`, `None` for none.
        least_propensity: The bound of propensities; `None` for the default.
        other_columns: Columns that have another meaning.
        images: Whether the features are an image, which has no such roles.
            Defaults to `False`.

    Raises:
        DataError: A column has two meanings, or the bound is none.
    """
    taken = set(other_columns)
    for role, column in roles.items():
        if column is not None and images:
            raise DataError.at(
                f"'{role}'", "none, where the features are an image", column
            )
        if column is not None and column in taken:
            raise DataError.at(
                f"'{role}'",
                "a column beside the features, the tasks and other roles",
                shown(column),
            )
        taken.add(column)
    if least_propensity is None:
        return
    number = isinstance(least_propensity, int | float)
    if not number or not 0 < least_propensity <= 1:  # type: ignore[operator]
        raise DataError.at(
            "'least_propensity'",
            "a number above 0 and up to 1",
            shown(least_propensity),
        )
    if roles["propensity"] is None:
        raise DataError.at(
            "'least_propensity'",
            "none without a 'propensity'",
            shown(least_propensity),
        )


def check_row_roles(
    group: str | None,
    weight: str | None,
    time: str | None,
    features: Mapping[str, Feature],
    tasks: Mapping[str, Task],
) -> None:
    """Checks the columns that say what rows belong to, count, and when.

    Args:
        group: The column that says what rows belong to, or `None`.
        weight: The column that says how much they count, or `None`.
        time: The column with their time, or `None`.
        features: The features with their kind.
        tasks: The tasks with their kind.

    Raises:
        DataError: A column has another meaning, or features are an image.
    """
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


def check_scenario(name: str | None, features: Mapping[str, Feature]) -> None:
    """Raises DataError unless the scenario is an id feature, or none."""
    ids = [feature for feature in features if found_id(feature, features)]
    if name is not None and name not in ids:
        raise DataError.at(
            "'scenario'",
            f"an id feature, of {ids}",
            f"{shown(name)}{did_you_mean(name, ids)}",
        )
