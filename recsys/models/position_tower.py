from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor

if TYPE_CHECKING:
    import pandas as pd

# Key of the positions among the inputs of a training step.
POSITIONS = "/position"
# Adam moves a weight by about the learning rate a step, however clear its
# gradient is. Every row says something of these few weights, so that they may
# move faster than others: else a day's log ends before they are learned.
_LOGITS_PER_WEIGHT = 10.0


@keras.saving.register_keras_serializable(package="recsys")
class PositionTower(keras.layers.Layer):
    """P(seen | position), learned beside the tasks and left out in serving.

        p(click | x, position) = P(seen | position) P(click | x, seen)

    The first position counts as seen: of the two factors, the product alone
    would leave the scale open. Every other position has a logit per task, 10
    times a weight, which begins at 0; a position beyond the last one has that
    one's.

    Args:
        tasks: Names of the tasks with a factor.
        num_positions: Number of positions, at least 1.
        **kwargs: `name`, `dtype`.

    Call arguments:
        positions: Int32 `(batch,)`, from 0 for the first position.

    Returns:
        Dict of task to float32 `(batch, 1)`.

    References:
        Guo, Yu, Liu, Tang, Zhang. PAL: A Position-bias Aware Learning
        Framework for CTR Prediction in Live Recommender Systems. RecSys 2019,
        section 3.2.
    """

    def __init__(
        self, tasks: Iterable[str], num_positions: int, **kwargs: Any
    ) -> None:
        kwargs.setdefault("dtype", "float32")
        super().__init__(**kwargs)
        self.tasks = list(tasks)
        self.num_positions = num_positions

    def build(self, input_shape: Shape | None = None) -> None:
        self.kernel = self.add_weight(
            shape=(self.num_positions, len(self.tasks)),
            initializer="zeros",
            name="kernel",
        )
        self.built = True

    def call(self, positions: Tensor) -> dict[str, Tensor]:
        positions = ops.minimum(positions, self.num_positions - 1)
        logits = _LOGITS_PER_WEIGHT * self.kernel
        seen = ops.sigmoid(ops.take(logits, positions, axis=0))  # (B, T)
        seen = ops.where(positions[:, None] == 0, 1.0, seen)
        return {
            task: seen[:, number : number + 1]
            for number, task in enumerate(self.tasks)
        }

    def compute_output_shape(self, input_shape: Shape) -> dict[str, Shape]:
        return dict.fromkeys(self.tasks, (input_shape[0], 1))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "tasks": self.tasks,
            "num_positions": self.num_positions,
        }


def encoded_positions(column: "pd.Series") -> np.ndarray:
    """Returns positions as a tower takes them; missing ones as the first."""
    return column.fillna(1).to_numpy(np.int32) - 1
