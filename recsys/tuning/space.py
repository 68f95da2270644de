from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from recsys.tuning.dimensions import Dimension


@dataclass(frozen=True)
class Space:
    """Which configurations a sweep tries.

    Args:
        given: Fields of `TrainConfig` that all trials share, by name.
        dimensions: What each further field is drawn from. The entries of a
            mapping are fields of their own here, such as
            "gate_options.gamma".
    """

    given: Mapping[str, Any]
    dimensions: Mapping[str, Dimension]

    @cached_property
    def searched(self) -> dict[str, Dimension]:
        """The dimensions that leave a choice."""
        return {
            name: dimension
            for name, dimension in self.dimensions.items()
            if not dimension.is_fixed
        }

    def hyperparameters(self) -> Any:
        """Returns the space as a `keras_tuner.HyperParameters`."""
        import keras_tuner

        hyperparameters = keras_tuner.HyperParameters()
        for name, dimension in self.searched.items():
            dimension.declare(hyperparameters, name)
        return hyperparameters

    def decode(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values that KerasTuner has drawn, by name.

        Args:
            drawn: `HyperParameters.values`; what does not belong to the space
                is left out.
        """
        return {
            name: dimension.decode(drawn[name])
            for name, dimension in self.searched.items()
        }

    def fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of `TrainConfig` of one point of the space.

        Args:
            values: Values by name; a dimension that is not among them has its
                first one.
        """
        first = {key: axis.examples[0] for key, axis in self.dimensions.items()}
        result = dict(self.given)
        for name, value in {**first, **values}.items():
            field, _, key = name.partition(".")
            if key:
                value = {**result.get(field, {}), key: value}
            result[field] = value
        return result

    def examples(self) -> Iterator[dict[str, Any]]:
        """Yields configurations in which each field takes all its values.

        A range takes its ends. While one field takes its values, the others
        keep their first one.
        """
        yield self.fields({})
        for name, dimension in self.dimensions.items():
            for value in dimension.examples[1:]:
                yield self.fields({name: value})
