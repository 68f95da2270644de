from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from typing import get_args
from typing import get_origin


def typed_arguments(
    what: str, values: Mapping[str, Any], hints: Mapping[str, Any]
) -> dict[str, Any]:
    """Gives the texts among named values the types of a function's arguments.

    Args:
        what: What the values are, for the error message.
        values: Values by name. A text is read as what its argument is
            annotated with, that of a list as texts between commas; any other
            value is taken as it is.
        hints: The arguments that there are, with their annotations.

    Returns:
        The values by name, in their given order.

    Raises:
        ValueError: There is no argument of a name, or a text is not of its
            type.

    Example:
    >>> hints = {"gamma": float, "columns": list[str]}
    >>> typed_arguments("`options`", {"gamma": "1", "columns": "a,b"}, hints)
    {'gamma': 1.0, 'columns': ['a', 'b']}
    """
    for name in values:
        if name not in hints:
            raise ValueError(
                f"{what} must be among {', '.join(hints) or 'none'}. "
                f"Received: {name!r}"
            )
    return {
        name: _typed(what, name, value, hints[name])
        for name, value in values.items()
    }


def _typed(what: str, name: str, value: Any, hint: Any) -> Any:
    if not isinstance(value, str):
        return value
    if get_origin(hint) in (list, Sequence):
        (kind,) = get_args(hint)
        return [_typed(what, name, part, kind) for part in value.split(",")]
    kinds = get_args(hint) or (hint,)
    if type(None) in kinds and value.lower() == "none":
        return None
    if bool in kinds and value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        if kind in kinds:
            with suppress(ValueError):
                return kind(value)
    if str in kinds or Any in kinds:
        return value
    expected = " or ".join(kind.__name__ for kind in kinds)
    raise ValueError(
        f"{what}: {name} must be of type {expected}. Received: {name}={value!r}"
    )
