from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import suppress
from types import UnionType
from typing import Annotated
from typing import Any
from typing import get_args
from typing import get_origin

from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shortened
from recsys.errors.shown import shown


class Repeated(tuple[str, ...]):
    """The texts of an argument that a command line gives several times."""


def typed_arguments(
    what: str, values: Mapping[str, object], hints: Mapping[str, object]
) -> dict[str, Any]:
    """Gives the texts among named values the types of a function's arguments.

    Args:
        what: What the values are, for the error message.
        values: Values by name. A text is read as what its argument is
            annotated with, that of a list as texts between commas; those of
            a `Repeated` list add up; any other value is taken as it is.
        hints: The arguments that there are, with their annotations.

    Returns:
        The values by name, in their given order.

    Raises:
        ValueError: There is no argument of a name, a text is not of its type,
            or an argument is given several times and is no list.

    Example:
    >>> hints = {"gamma": float, "columns": list[str]}
    >>> typed_arguments("`options`", {"gamma": "1", "columns": "a,b"}, hints)
    {'gamma': 1.0, 'columns': ['a', 'b']}
    >>> typed_arguments("`options`", {"columns": Repeated(("a", "b,c"))}, hints)
    {'columns': ['a', 'b', 'c']}
    """
    for name in values:
        if name not in hints:
            raise ValueError(
                f"{what} must be among {', '.join(hints) or 'none'}"
                f"{did_you_mean(name, hints)}. Received: {shown(name)}"
            )
    return {
        name: _typed(what, name, value, hints[name])
        for name, value in values.items()
    }


def _typed(what: str, name: str, value: object, hint: object) -> Any:
    if not isinstance(value, str | Repeated):
        return value
    alternatives = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for kind in alternatives:
        if get_origin(kind) in (list, Sequence):
            texts = value if isinstance(value, Repeated) else (value,)
            parts = ",".join(texts).split(",")
            (item,) = get_args(kind)
            return [_typed(what, name, part, item) for part in parts]
    if isinstance(value, Repeated):
        received = " and ".join(f"{name}={text}" for text in value)
        raise ValueError(
            f"{what}: {name} must be given once. "
            f"Received: {shortened(received, 300)}"
        )
    kinds = [_plain(kind) for kind in get_args(hint) or (hint,)]
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
        f"{what}: {name} must be of type {expected}. "
        f"Received: {name}={shown(value)}"
    )


def _plain(kind: Any) -> Any:
    """A type without the bounds that it is annotated with."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind
