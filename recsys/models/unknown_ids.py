"""Training rows that are trained as rows of an unknown id."""

from collections.abc import Mapping

import keras
from keras import ops

from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="recsys")
class UnknownIds(keras.layers.Layer):
    """Replaces the ids of random training rows by the unknown one.

    All ids of training rows are known, those of new users and items are not.
    A model that is to predict for them has to be trained on rows of which it
    knows as little.

    Attributes:
        rates: By id feature, the share of rows whose id is replaced. Empty
            until set.

    Example:
    >>> import numpy as np
    >>> unknown_ids = UnknownIds()
    >>> unknown_ids.rates = {"user": 1.0}
    >>> inputs = {"user": np.array([3, 4]), "item": np.array([1, 2])}
    >>> replaced, _ = unknown_ids.replace(inputs, training=True)
    >>> [ops.convert_to_numpy(ids).tolist() for ids in replaced.values()]
    [[0, 0], [1, 2]]

    References:
        Volkovs, Yu, Poutanen. DropoutNet: Addressing Cold Start in Recommender
        Systems. NeurIPS 2017.
    """

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.rates: Mapping[str, float] = {}
        # A drawn seed would give all weights other first values.
        self.seed_generator = keras.random.SeedGenerator(0)
        self.built = True

    def replace(
        self, inputs: Mapping[str, Tensor], training: bool | None
    ) -> tuple[Mapping[str, Tensor], dict[str, Tensor]]:
        """Returns inputs of which some have an unknown id, and which.

        Args:
            inputs: By feature, as a model takes them.
            training: Boolean; otherwise they stay as they are.

        Returns:
            The inputs, and by feature with a rate a boolean tensor `(batch,)`.
        """
        are_unknown: dict[str, Tensor] = {}
        if not training:
            return inputs, are_unknown
        for name, rate in self.rates.items():
            if rate > 0:
                draws = keras.random.uniform(
                    ops.shape(inputs[name]), seed=self.seed_generator
                )
                are_unknown[name] = draws < rate
        replaced = {
            name: ops.where(is_unknown, 0, inputs[name])
            for name, is_unknown in are_unknown.items()
        }
        return {**inputs, **replaced}, are_unknown
