from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.weighting.task_weighting import TaskWeighting


class DynamicWeightAverage(TaskWeighting):
    """Gives more weight to tasks whose loss falls more slowly.

    In epoch t, with the mean losses L of the two epochs before it,

        w_k = L_k(t - 1) / L_k(t - 2)
        factor_k = K exp(w_k / T) / sum over i of exp(w_i / T)

    for K tasks and a temperature T. The first two epochs have all factors 1.
    Where a task's loss was 0 in one of the two epochs, its w is 1.

    Args:
        *args: Those of `TaskWeighting`.
        temperature: Float T above 0; the larger, the more even the factors.
            Defaults to 2, as in the paper.
        **kwargs: Those of `TaskWeighting`.

    Raises:
        ValueError: The temperature is not above 0.

    Example:
    >>> weighting = DynamicWeightAverage({"watch": 0.5, "rating": 0.5})
    >>> weighting.build(keras.optimizers.SGD(0.1))
    >>> for losses in ([1.0, 4.0], [1.0, 2.0]):
    ...     _ = weighting.step(np.array(losses, "float32"), None)
    ...     _ = weighting.end_epoch()
    >>> factors = weighting.step(np.array([1.0, 1.0], "float32"), None)
    >>> ops.convert_to_numpy(factors).astype(float).round(3).tolist()
    [1.124, 0.876]

    References:
        Liu, Johns, Davison. End-to-End Multi-Task Learning with Attention.
        CVPR 2019, "Dynamic Weight Average" in section 3, with the mean over
        an epoch's steps, w_k = 1 in the first two epochs and T = 2.
    """

    def __init__(
        self, *args: Any, temperature: float = 2.0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not temperature > 0:
            raise ValueError(
                "`temperature` must be above 0. "
                f"Received: temperature={temperature}"
            )
        self.temperature = temperature

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().build(optimizer)
        zeros = np.zeros(self.num_tasks)
        self._factors = self.add_state("factors", zeros + 1)
        self._loss_sums = self.add_state("sums_of_losses", zeros)
        # 0 until there is one: w is 1 then.
        self._last = self.add_state("losses_of_last_epoch", zeros)

    def weigh(self, losses: Tensor, products: Tensor | None) -> Tensor:
        self._loss_sums.assign_add(losses)
        return ops.copy(self._factors.value)

    def end_epoch(self) -> dict[str, float]:
        steps = max(float(ops.convert_to_numpy(self._steps)), 1.0)
        now = ops.convert_to_numpy(self._loss_sums).astype("float64") / steps
        before = ops.convert_to_numpy(self._last).astype("float64")
        rates = np.ones_like(now)
        np.divide(now, before, out=rates, where=(before > 0) & (now > 0))
        # Relative to the largest: exp of a loss that has exploded is infinite.
        powers = np.exp((rates - rates.max()) / self.temperature)
        self._factors.assign(self.num_tasks * powers / powers.sum())
        self._last.assign(now)
        self._loss_sums.assign(np.zeros(self.num_tasks))
        return super().end_epoch()
