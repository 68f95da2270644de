from dataclasses import dataclass
from dataclasses import replace
from math import prod

import keras

from keras_moe import layers
from recsys.config.gate_names import SEARCH_SUFFIX
from recsys.models.architectures import Architectures
from recsys.models.architectures import Bank
from recsys.models.shared_tower import SharedTower


@dataclass
class TableArchitectures(Architectures):
    """Makes what lies between the embeddings and the heads of a ranker.

    The experts see features `(batch, width)`.

    Args:
        width: How many features the experts see.
    """

    width: int

    def _shared_bottom(self) -> keras.layers.Layer:
        """An MLP of the given widths, or as large as the MMoE would be."""
        units = self.config.bottom_units or self._units_of_mixture_size()
        parts = self._dense_layers(units)
        return SharedTower(keras.Sequential(parts), self.tasks)

    def _units_of_mixture_size(self) -> list[int]:
        """Widths with about as many parameters as the MMoE would have."""
        gate = self.config.gate.removesuffix(SEARCH_SUFFIX)
        config = replace(self.config, architecture="mmoe", gate=gate)
        mmoe = replace(self, config=config).create()
        features = (None, self.width)
        mmoe.build(features, (None,) if self.num_buckets else features)
        budget = sum(prod(weight.shape) for weight in mmoe.trainable_weights)
        *hidden, last = self.sizes.expert_units
        depth = max(1, len(hidden))
        return [_widest(self.width, depth, last, budget)] * depth + [last]

    def _experts(self, num_experts: int) -> Bank:
        return layers.MLPExperts(
            num_experts,
            self.sizes.expert_units,
            dropout=self.sizes.expert_dropout,
            # Without one, PyTorch drops out by a state that is not the model's.
            seed=self._next_seed(),
        )


def _widest(width: int, depth: int, last: int, budget: int) -> int:
    """The hidden width with which an MLP comes closest to a budget.

    Args:
        width: Inputs of the MLP.
        depth: Number of hidden layers, all of one width.
        last: Width of the layer after them.
        budget: Number of parameters.
    """

    def parameters(units: int) -> int:
        hidden = (width + 1) * units + (depth - 1) * (units + 1) * units
        return hidden + (units + 1) * last

    units = 1
    while abs(parameters(units + 1) - budget) < abs(parameters(units) - budget):
        units += 1
    return units
