"""What ids add to the predictions of training rows that do not show them."""

from collections.abc import Mapping

import keras
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Structure
from keras_moe.types import Tensor

# How many times as far as of other weights Adam's steps move an intercept: what
# the rows of an id have in common is to be in it before the features of these
# rows, seen again and again, are taken for the reason. `benchmarks/README.md`,
# "Random intercepts", compares some.
_SPEED = 100.0


@keras.saving.register_keras_serializable(package="recsys")
class RandomIntercepts(keras.layers.Layer):
    """Intercepts of ids, for training rows in which they count as unknown.

    A row of an unknown user still has features that tell users apart: a
    history, an age with an occupation. A model that is trained on such rows
    learns users by heart from them, which is worth nothing for new ones. So in
    training alone, a head's last sum, before its activation, has an intercept
    of the id that the row has in truth added to it,

        f_t(row) + Σ_c s ⟨a_ct, e_c[id]⟩

    over the features c whose id is replaced in the row, with e_c the embedding
    and s a speed. a_ct is 0 at first. A new id has an intercept of 0.

    Attributes:
        kernels: By feature a weight `(width, sum of the outputs)`, which is
            not trained until `train_for` says so.

    Args:
        widths: By id feature, the width of its embedding.
        outputs: By task, the outputs of its head.
        **kwargs: `name`, `dtype`.

    Call arguments:
        rows: By feature, the embeddings `(batch, width)` of the ids.
        are_replaced: By feature, boolean tensor `(batch,)`, the rows in which
            the id is replaced.

    Returns:
        By task, float32 tensor `(batch, outputs)`; empty without features.

    Example:
    >>> import numpy as np
    >>> intercepts = RandomIntercepts({"user": 1}, {"watch": 1, "kind": 2})
    >>> intercepts.build()
    >>> _ = intercepts.kernels["user"].assign([[0.01, 0.0, -0.01]])
    >>> added = intercepts(
    ...     {"user": np.ones((2, 1))}, {"user": np.array([True, False])}
    ... )
    >>> ops.convert_to_numpy(added["watch"]).round(3).tolist()
    [[1.0], [0.0]]
    >>> ops.convert_to_numpy(added["kind"]).round(3).tolist()
    [[0.0, -1.0], [0.0, 0.0]]

    References:
        Laird, Ware. Random-Effects Models for Longitudinal Data. Biometrics
        1982. Simchoni, Rosset. Using Random Effects to Account for
        High-Cardinality Categorical Features and Repeated Measures in Deep
        Neural Networks. NeurIPS 2021.
    """

    def __init__(
        self,
        widths: Mapping[str, int],
        outputs: Mapping[str, int],
        **kwargs: object,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.widths = dict(widths)
        self.outputs = dict(outputs)

    def build(self, input_shape: Structure = None) -> None:
        self.kernels = {
            name: self.add_weight(
                name=f"intercepts_{place}",
                shape=(width, sum(self.outputs.values())),
                initializer="zeros",
                dtype="float32",
            )
            for place, (name, width) in enumerate(self.widths.items())
        }
        self.train_for({})
        self.built = True

    def train_for(self, rates: Mapping[str, float]) -> None:
        """Says which intercepts are trained.

        Args:
            rates: By id feature, the share of rows whose id is replaced.
        """
        for name, kernel in self.kernels.items():
            kernel.trainable = rates.get(name, 0.0) > 0

    def call(
        self, rows: Mapping[str, Tensor], are_replaced: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        parts = [
            ops.where(
                are_replaced[name][:, None],
                ops.matmul(ops.cast(rows[name], "float32"), kernel),
                0.0,
            )
            for name, kernel in self.kernels.items()
            if name in are_replaced
        ]
        if not parts:
            return {}
        added, start = _SPEED * sum(parts[1:], parts[0]), 0
        by_task = {}
        for task, count in self.outputs.items():
            by_task[task] = added[:, start : start + count]
            start += count
        return by_task

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "widths": self.widths,
            "outputs": self.outputs,
        }
