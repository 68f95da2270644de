"""The kinds of sets that a hyperparameter is drawn from."""

import dataclasses
import json
from typing import TYPE_CHECKING
from typing import Annotated
from typing import Any
from typing import ClassVar
from typing import Literal

from pydantic import ConfigDict
from pydantic import Field
from pydantic import FiniteFloat
from pydantic import Strict
from pydantic import StrictInt
from pydantic.dataclasses import dataclass

from recsys.errors.bounds import LARGEST_COUNT
from recsys.errors.clear_errors import with_clear_errors
from recsys.errors.shown import shown

if TYPE_CHECKING:
    import keras_tuner

_Integer = Annotated[StrictInt, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]
_Number = Annotated[FiniteFloat, Strict()]
_ROUNDING = 1e-12  # Relative.
_OWN_FIELDS = ConfigDict(extra="forbid")


@dataclasses.dataclass(frozen=True)
class Choices:
    """A few values, each as likely as the others.

    KerasTuner's own choices are of one type and neither lists nor `None`, so
    it gets to see the values as JSON.

    Args:
        values: The values, ready for JSON.

    Raises:
        ValueError: There are no values.

    Example:
    >>> Choices([[256], [128, 64]]).decode("[128, 64]")
    [128, 64]
    """

    values: list[object]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(
                "expected at least one value to choose from. Received: []"
            )

    @property
    def is_fixed(self) -> bool:
        """True if there is only one value."""
        return len(self.values) == 1

    @property
    def examples(self) -> list[object]:
        """Values that are fit for training if all are."""
        return self.values

    def declare(
        self, hyperparameters: "keras_tuner.HyperParameters", name: str
    ) -> None:
        """Adds the dimension to a `keras_tuner.HyperParameters`."""
        hyperparameters.Choice(name, [json.dumps(v) for v in self.values])

    def decode(self, value: object) -> object:
        """Returns the value that KerasTuner's stands for.

        Args:
            value: What KerasTuner has drawn, or a file says that it has.

        Raises:
            ValueError: It is none of the values; 1 and 1.0 are the same.
        """
        choices = [json.dumps(choice) for choice in self.values]
        known = {_written(choice) for choice in choices}
        if isinstance(value, str) and _written(value) in known:
            return json.loads(value)
        raise ValueError(
            f"one of {', '.join(choices)}. Received: {shown(value)}"
        )


def _written(value: str) -> str | None:
    """JSON written in one way, with all numbers as floats."""
    try:
        return json.dumps(json.loads(value, parse_int=float), sort_keys=True)
    except ValueError:
        return None


@with_clear_errors
@dataclass(frozen=True, config=_OWN_FIELDS)
class Range:
    """An interval of numbers, both ends included.

    Args:
        min: The lower end.
        max: The upper end.
        sampling: What is drawn uniformly: "linear", the number, or "log", its
            logarithm.
        step: Distance between the numbers that may be drawn, or their ratio
            with `sampling="log"`; any number may be drawn with `None`.

    Raises:
        TypeError: An argument has another type.
        ValueError: The range is empty, or a number cannot be sampled so.

    Example:
    >>> Range(5e-5, 5e-4, sampling="log").examples
    [5e-05, 0.0005]
    """

    number: ClassVar[type] = float

    min: _Number
    max: _Number
    sampling: Literal["linear", "log"] = "linear"
    step: _Number | None = None

    def __post_init__(self) -> None:
        logarithmic = self.sampling == "log"
        if not self.min < self.max:
            self._refuse("max", f"above min, {self.min:.10g}")
        if logarithmic and self.min <= 0:
            self._refuse("min", "above 0 where the sampling is log")
        if self.step is not None and not self.step > logarithmic:
            self._refuse("step", f"above {int(logarithmic)}")

    def _refuse(self, key: str, expected: str) -> None:
        value = getattr(self, key)
        raise ValueError(
            f"expected `{key}` to be {expected}. Received: {key}={value!r}"
        )

    @property
    def is_fixed(self) -> bool:
        """True if there is only one value."""
        return False

    @property
    def examples(self) -> list[float]:
        """Values that are fit for training if all are."""
        return [self.min, self.max]

    def declare(
        self, hyperparameters: "keras_tuner.HyperParameters", name: str
    ) -> None:
        """Adds the dimension to a `keras_tuner.HyperParameters`."""
        kinds = {int: hyperparameters.Int, float: hyperparameters.Float}
        add = kinds[self.number]
        add(name, self.min, self.max, step=self.step, sampling=self.sampling)

    def decode(self, value: Any) -> float:
        """Returns the value that KerasTuner's stands for.

        Args:
            value: What KerasTuner has drawn, or a file says that it has.

        Raises:
            ValueError: It is no such number, or not within the range.
        """
        is_number = isinstance(value, int | float)
        if is_number and not isinstance(value, bool) and self._holds(value):
            drawn: float = self.number(value)
            return drawn
        kind = "an integer" if self.number is int else "a number"
        raise ValueError(
            f"{kind} from {self.min:.10g} to {self.max:.10g}. "
            f"Received: {shown(value)}"
        )

    def _holds(self, value: float) -> bool:
        if self.number is int and value % 1:
            return False
        # What is drawn by logarithms may be past an end by a rounding.
        slack = _ROUNDING * max(abs(self.min), abs(self.max))
        return self.min - slack <= value <= self.max + slack


@with_clear_errors
@dataclass(frozen=True, config=_OWN_FIELDS)
class IntegerRange(Range):
    """A range of which only integers are drawn, with integers for its ends.

    Example:
    >>> IntegerRange(1, 9, step=4).decode(5.0)
    5
    """

    number: ClassVar[type] = int

    min: _Integer
    max: _Integer
    step: _Integer | None = None


Dimension = Choices | Range
