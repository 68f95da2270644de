from collections.abc import Sequence
from dataclasses import dataclass

import keras

from recsys.models.architectures import Architectures
from recsys.models.architectures import Bank
from recsys.models.shared_tower import SharedTower


@dataclass
class ImageArchitectures(Architectures):
    """Makes what lies between the images and the heads of a classifier.

    Every expert is a CNN on images `(batch, height, width, channels)`. A
    shared bottom is one such CNN, as in appendix D.2 of DSelect-k.

    Raises:
        ValueError: The architecture feeds experts with the outputs of others.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.config.architecture == "ple":
            raise ValueError(
                "`architecture` must not be 'ple' for images: its second level "
                "takes vectors. Received: architecture='ple'"
            )

    def _shared_bottom(self) -> keras.layers.Layer:
        units = self.config.bottom_units or self.sizes.expert_units
        return SharedTower(self._cnn(units), self.tasks)

    def _experts(self, num_experts: int) -> Bank:
        units = self.sizes.expert_units
        return [self._cnn(units) for _ in range(num_experts)]

    def _cnn(self, units: Sequence[int]) -> keras.layers.Layer:
        layers: list[keras.layers.Layer] = []
        for filters, side in self.sizes.convolutions:
            layers += [
                keras.layers.Conv2D(filters, side, activation="relu"),
                keras.layers.MaxPooling2D(),
            ]
        layers.append(keras.layers.Flatten())
        return keras.Sequential([*layers, *self._dense_layers(units)])
