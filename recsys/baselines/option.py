from collections.abc import Mapping
from dataclasses import dataclass

from recsys.errors.shown import did_you_mean
from recsys.errors.shown import shown

Options = Mapping[str, float]


@dataclass(frozen=True)
class Option:
    """A hyperparameter of a baseline, a number above 0.

    Attributes:
        grid: The values that are tried, where none is given.
        first: The one that the others are chosen with first.
        most: The largest value that may be given.
    """

    grid: tuple[float, ...]
    first: float
    most: float = 1e9

    @property
    def is_integer(self) -> bool:
        """True if values are integers."""
        return isinstance(self.first, int)


def checked_options(
    model: str, known: Mapping[str, Option], given: Mapping[str, object]
) -> dict[str, float]:
    """Returns the options that are given, as numbers.

    Args:
        model: Name of the model, for the error message.
        known: The options that it has.
        given: Values by name, numbers or texts that say some.

    Raises:
        ValueError: There is no such option, or a value is none that it has.

    Example:
    >>> known = {"lambda": Option((1.0,), 1.0)}
    >>> checked_options("ease", known, {"lambda": "3"})
    {'lambda': 3.0}
    """
    values = {}
    for name, value in given.items():
        if name not in known:
            raise ValueError(
                f"`option` of {model} must be among "
                f"{', '.join(known) or 'none'}{did_you_mean(name, known)}. "
                f"Received: {shown(name)}"
            )
        values[name] = _checked(model, name, known[name], value)
    return values


def _checked(model: str, name: str, option: Option, value: object) -> float:
    kind = int if option.is_integer else float
    number: float = -1.0
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            number = -1.0
        if not isinstance(value, str) and number != value:
            number = -1.0
    if not 0 < number <= option.most:
        whole = "an integer" if option.is_integer else "a number"
        raise ValueError(
            f"`option` {name} of {model} must be {whole} above 0 and at most "
            f"{option.most:,.10g}. Received: {name}={shown(value)}"
        )
    return number
