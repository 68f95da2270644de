"""Where the values of an option lie on an axis, numbers or not."""

from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from recsys.errors.shown import printable

_LOGARITHMIC = 50  # Largest by smallest number, from where on.
_MISSING = -0.12  # Height of what has no value, below the others.
_LONGEST_LABEL = 14


@dataclass(frozen=True)
class OptionAxis:
    """An axis from 0 to 1.

    Attributes:
        categories: The values that stand on it as texts, from below; empty
            for numbers.
        lowest: The lowest number.
        highest: The highest.
        has_missing: Whether a value is missing.
    """

    categories: tuple[str, ...]
    lowest: float = 0.0
    highest: float = 0.0
    has_missing: bool = False

    @classmethod
    def of(cls, values: Sequence[object]) -> Self:
        """Returns the axis of some values.

        Numbers have a place by their size, on a logarithmic axis where they
        are positive and far apart; other values have equal distances, in the
        order of their texts. `None` stands for no value.
        """
        known = [value for value in values if value is not None]
        has_missing = len(known) < len(values)
        numbers = [float(str(v)) for v in known if _is_number(v)]
        if known and len(numbers) == len(known):
            return cls((), min(numbers), max(numbers), has_missing)
        return cls(tuple(sorted(set(map(str, known)))), 0, 0, has_missing)

    @property
    def is_logarithmic(self) -> bool:
        return self.lowest > 0 and self.highest > _LOGARITHMIC * self.lowest

    def height(self, value: object) -> float:
        """Returns where one of the values lies."""
        if value is None:
            return _MISSING
        if self.categories:
            position = self.categories.index(str(value))
            return (position + 0.5) / len(self.categories)
        low, high, number = self.lowest, self.highest, float(str(value))
        if self.is_logarithmic:
            low, high, number = np.log([low, high, number])
        return float((number - low) / (high - low)) if high > low else 0.5

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yields heights and labels."""
        if self.has_missing:
            yield _MISSING, "none"
        for category in self.categories:
            yield self.height(category), _short(category)
        if self.categories:
            return
        spaced = np.geomspace if self.is_logarithmic else np.linspace
        numbers = spaced(self.lowest, self.highest, 3)
        for number in sorted(set(numbers.tolist())):
            yield self.height(number), f"{number:.4g}"


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bool(np.isfinite(float(str(value))))


def _short(text: str) -> str:
    text = printable(text)
    return (
        text
        if len(text) <= _LONGEST_LABEL
        else text[: _LONGEST_LABEL - 1] + "…"
    )
