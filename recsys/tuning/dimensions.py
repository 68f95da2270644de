"""The kinds of sets that a hyperparameter is drawn from."""

import json
from dataclasses import dataclass
from typing import Any

SAMPLINGS = ("linear", "log")


@dataclass(frozen=True)
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

    values: list[Any]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(
                "expected at least one value to choose from. Received: []"
            )

    @property
    def is_fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return len(self.values) == 1

    @property
    def examples(self) -> list[Any]:
        """Values that are fit for training if all are."""
        return self.values

    def declare(self, hyperparameters: Any, name: str) -> None:
        """Adds the dimension to a `keras_tuner.HyperParameters`."""
        hyperparameters.Choice(name, [json.dumps(v) for v in self.values])

    def decode(self, value: str) -> Any:
        """Returns the value that KerasTuner's stands for."""
        return json.loads(value)


@dataclass(frozen=True)
class Range:
    """An interval of numbers, both ends included.

    Args:
        minimum: The lower end.
        maximum: The upper end.
        integer: Whether only integers are drawn.
        sampling: What is drawn uniformly: "linear", the number, or "log", its
            logarithm.
        step: Distance between the numbers that may be drawn, or their ratio
            with `sampling="log"`; any number may be drawn with `None`.

    Raises:
        ValueError: The range is empty, or a number cannot be sampled so.

    Example:
    >>> Range(5e-5, 5e-4, sampling="log").examples
    [5e-05, 0.0005]
    """

    minimum: float
    maximum: float
    integer: bool = False
    sampling: str = "linear"
    step: float | None = None

    def __post_init__(self) -> None:
        logarithmic = self.sampling == "log"
        if self.sampling not in SAMPLINGS:
            self._refuse("sampling", f"one of {', '.join(SAMPLINGS)}")
        if not self.minimum < self.maximum:
            self._refuse("max", f"above min, {self.minimum}")
        if logarithmic and self.minimum <= 0:
            self._refuse("min", "above 0 where the sampling is log")
        if self.step is not None and not self.step > logarithmic:
            self._refuse("step", f"above {int(logarithmic)}")

    def _refuse(self, key: str, expected: str) -> None:
        names = {"min": "minimum", "max": "maximum"}
        value = getattr(self, names.get(key, key))
        raise ValueError(
            f"expected `{key}` to be {expected}. Received: {key}={value!r}"
        )

    @property
    def is_fixed(self) -> bool:
        """Whether there is nothing to choose."""
        return False

    @property
    def examples(self) -> list[float]:
        """Values that are fit for training if all are."""
        return [self.minimum, self.maximum]

    def declare(self, hyperparameters: Any, name: str) -> None:
        """Adds the dimension to a `keras_tuner.HyperParameters`."""
        add = hyperparameters.Int if self.integer else hyperparameters.Float
        add(
            name,
            self.minimum,
            self.maximum,
            step=self.step,
            sampling=self.sampling,
        )

    def decode(self, value: float) -> float:
        """Returns the value that KerasTuner's stands for."""
        return int(value) if self.integer else float(value)


Dimension = Choices | Range
