"""Roles of columns that say how a log came about."""

from collections.abc import Collection
from collections.abc import Mapping

from recsys.errors import DataError
from recsys.errors.shown import shown

LEAST_PROPENSITY = 0.01


def check_log_roles(
    roles: Mapping[str, str | None],
    least_propensity: object,
    others: Collection[str | None],
    images: bool = False,
) -> None:
    """Checks the position and the propensity.

    Args:
        roles: Columns by the key of `dataset.json`, `None` for none.
        least_propensity: The bound of propensities; `None` for the default.
        others: Columns that have another meaning.
        images: Whether the features are an image, which has no such roles.
            Defaults to `False`.

    Raises:
        DataError: A column has two meanings, or the bound is none.
    """
    taken = set(others)
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
