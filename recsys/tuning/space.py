from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from recsys.errors.shown import shown
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.tuning.dimensions import Dimension

if TYPE_CHECKING:
    import keras_tuner


@dataclass(frozen=True)
class Space:
    """The configurations that a sweep tries.

    Args:
        given: Fields of `TrainConfig` that all trials share, by name.
        dimensions: What each further field is drawn from. The entries of a
            mapping are fields of their own here, such as
            "gate_options.gamma".
    """

    given: JsonMapping
    dimensions: Mapping[str, Dimension]

    @cached_property
    def searched(self) -> dict[str, Dimension]:
        """The dimensions that leave a choice."""
        return {
            name: dimension
            for name, dimension in self.dimensions.items()
            if not dimension.is_fixed
        }

    def hyperparameters(self) -> "keras_tuner.HyperParameters":
        """Returns the space as a `keras_tuner.HyperParameters`."""
        import keras_tuner

        hyperparameters = keras_tuner.HyperParameters()
        for name, dimension in self.searched.items():
            dimension.declare(hyperparameters, name)
        return hyperparameters

    def decode(self, drawn: JsonMapping) -> JsonObject:
        """Returns the values that KerasTuner has drawn, by name.

        Args:
            drawn: `HyperParameters.values`; what does not belong to the space
                is left out.

        Raises:
            ValueError: One of them is not there, or not in the space.
        """
        values = {}
        for name in self.searched:
            if name not in drawn:
                raise ValueError(f"expected a value of {name}. Received: none")
            values[name] = self._decoded(name, drawn[name])
        return values

    def check_declared(self, declared: Sequence[JsonMapping]) -> None:
        """Checks that a space is this one, or within it.

        Args:
            declared: What each of KerasTuner's hyperparameters consists of,
                the `get_config` of each.

        Raises:
            ValueError: They have other names, or values that are not here.
        """
        names = [config["name"] for config in declared]
        if names != list(self.searched):
            raise ValueError(
                f"expected the hyperparameters {[*self.searched]}. "
                f"Received: {shown(names)}"
            )
        for config in declared:
            ends = [config.get("min_value"), config.get("max_value")]
            for value in config.get("values", ends):
                self._decoded(config["name"], value)

    def _decoded(self, name: str, value: object) -> object:
        try:
            return self.searched[name].decode(value)
        except ValueError as error:
            raise ValueError(f"expected {name} to be {error}") from None

    def fields(self, values: JsonMapping) -> JsonObject:
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

    def examples(self) -> Iterator[JsonObject]:
        """Yields configurations in which each field takes all its values.

        A range takes its ends. While one field takes its values, the others
        keep their first one.
        """
        yield self.fields({})
        for name, dimension in self.dimensions.items():
            for value in dimension.examples[1:]:
                yield self.fields({name: value})
