"""Names of earlier versions, which are accepted for one release."""

import warnings
from collections.abc import Mapping
from typing import Any

from recsys.config.presets import PRESETS


def warn_renamed(old: str, new: str) -> None:
    """Warns that an old name has been used.

    Args:
        old: The old name, as its user writes it.
        new: The new one.

    Example:
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_renamed("`keep=fixed-point`", "`keep=k-core`")
    >>> print(caught[0].message)
    `keep=fixed-point` is an old name: use `keep=k-core` from the next release
    """
    # A FutureWarning is shown to users, not to developers alone.
    warnings.warn(
        f"{old} is an old name: use {new} from the next release",
        FutureWarning,
        stacklevel=3,
    )


def current_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns fields of a configuration under the names that they have now.

    `architecture` was called `structure`, and `preset` was `architecture`.

    Args:
        fields: Fields of `recsys.TrainConfig` by name, or lists of the values
            that they may have.

    Raises:
        ValueError: A field is there under both its names.

    Example:
    >>> current_fields({"architecture": "movielens", "structure": "moe"})
    {'preset': 'movielens', 'architecture': 'moe'}
    """
    renamed: dict[str, Any] = {}
    for name, value in fields.items():
        new = _current_name(name, value)
        if renamed.get(new) is not None:
            raise ValueError(
                f"`{new}` must be given once. Received: {name}={value!r}, "
                f"and {new}={renamed[new]!r}"
            )
        renamed[new] = value
    return renamed


def with_current_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Does what `current_fields` does, and warns of each old name.

    Args:
        fields: As `current_fields` takes them, from a user.

    Raises:
        ValueError: A field is there under both its names.
    """
    renamed = current_fields(fields)
    for name, value in fields.items():
        new = _current_name(name, value)
        if new != name:
            warn_renamed(f"`{name}={value}`", f"`{new}={value}`")
    return renamed


def _current_name(name: str, value: Any) -> str:
    if name == "structure":
        return "architecture"
    if name == "architecture":
        values = value if isinstance(value, list) else [value]
        if values and all(
            choice is None or choice in list(PRESETS) for choice in values
        ):
            return "preset"
    return name
