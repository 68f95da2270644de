from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from keras_moe.types import Config
from keras_moe.types import Tensor


class ScenarioModel(keras.layers.Layer):
    """What fits a ranker to the scenario that each row is from.

    It stands at two places of a `Ranker`: it changes the vector of a row's
    features before the interaction and the mixture, and it makes the heads of
    the tasks, which take a condition beside the output of the mixture.

    A subclass defines `call` and `make_head`.

    Args:
        feature: Id feature that names the scenario.
        num_scenarios: Integer, how many scenarios the model knows. They are
            numbered from 1; 0 stands for all others.
        prior: Id features, such as user and item, whose vectors `call` gets
            behind that of the scenario.
        unknown_rate: Float in `[0, 1)`, as in `IdEmbedding`. Defaults to 0.01.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        features: Tensor `(batch, width)`, the vectors of all features.
        scenarios: Int32 tensor `(batch,)`.
        rows: List of tensors `(batch, dim)`: the embedding of the scenario,
            then those of `prior`.
        training: Boolean.

    Returns:
        Tensor `(batch, width)`, and what the heads take beside the output of
        the mixture: a tensor or a list of tensors.
    """

    def __init__(
        self,
        feature: str,
        num_scenarios: int,
        prior: Sequence[str] = (),
        unknown_rate: float = 0.01,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.feature = feature
        self.num_scenarios = num_scenarios
        self.prior = list(prior)
        self.unknown_rate = unknown_rate

    @property
    def embedded(self) -> list[str]:
        """The features whose vectors `call` gets, the scenario first."""
        return [self.feature, *self.prior]

    def with_unknown(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> Mapping[str, Tensor]:
        """Returns inputs of the model, of which some are of no known scenario.

        Args:
            inputs: By feature, as the model takes them.
            training: Boolean; otherwise they stay as they are.
        """
        return inputs

    def make_head(
        self, units: Sequence[int], num_outputs: int, activation: str | None
    ) -> keras.layers.Layer:
        """Makes the head of a task.

        Args:
            units: Hidden widths.
            num_outputs: Width of the output.
            activation: Activation of the output, by name.

        Returns:
            A layer of the mixture's output `(batch, units)` and the condition
            that `call` returns, with a float32 output `(batch, num_outputs)`.
        """
        raise NotImplementedError

    def condition_shape(
        self,
        features_shape: tuple[int, ...],
        rows_shapes: Sequence[tuple[int, ...]],
    ) -> Any:
        """Returns the shape of the condition, or the list of its shapes."""
        raise NotImplementedError

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "feature": self.feature,
            "num_scenarios": self.num_scenarios,
            "prior": self.prior,
            "unknown_rate": self.unknown_rate,
        }
