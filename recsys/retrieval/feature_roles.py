import warnings
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass

from recsys.errors.shown import printable


@dataclass(frozen=True)
class FeatureRole:
    """The tower that sees a feature, and the reason.

    Attributes:
        tower: "item" or "query".
        reason: Why it is this one.
        follows_item: Whether it is the query's and yet tells of which item a
            row is.
    """

    tower: str
    reason: str
    follows_item: bool = False


def role_lines(roles: Mapping[str, FeatureRole]) -> Iterator[str]:
    r"""Yields the lines that say which tower sees which feature.

    Args:
        roles: By feature.

    Example:
    >>> roles = {
    ...     "user": FeatureRole("query", "whom items are recommended to"),
    ...     "film": FeatureRole("item", "what is recommended"),
    ... }
    >>> print(*role_lines(roles), sep="\n")
    Towers of the retrieval:
      item tower   film  what is recommended
      query tower  user  whom items are recommended to
    """
    yield "Towers of the retrieval:"
    width = max(len(printable(name)) for name in roles)
    for tower in ("item", "query"):
        for name, role in roles.items():
            if role.tower == tower:
                shown = printable(name).ljust(width)
                yield f"  {tower + ' tower':11}  {shown}  {role.reason}"


def show_roles(roles: Mapping[str, FeatureRole]) -> None:
    """Prints which tower sees which feature.

    A warning names each feature by which a query knows the item that it is
    looking for.

    Args:
        roles: By feature.
    """
    print(*role_lines(roles), sep="\n", flush=True)
    for name, role in roles.items():
        if role.follows_item:
            warnings.warn(
                f"the query tower sees {name!r}, which changes over time with "
                "the item: a query tells by it which item is looked for. Name "
                "it in 'item_features' of dataset.json, or leave it out",
                stacklevel=2,
            )
