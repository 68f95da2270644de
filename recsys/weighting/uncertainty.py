import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.distribution.process_group import share_of_sum
from recsys.weighting.task_weighting import TaskWeighting


class Uncertainty(TaskWeighting):
    """Weighs tasks by the noise that is learned for each of them.

    With s = log sigma² of each task, what is minimised together with the
    network is

        sum of exp(-s) L / 2 + s / 2    for a squared error L,
        sum of exp(-s) L + s / 2        for a cross-entropy L,

    so the factors are exp(-s) / 2 and exp(-s). All s begin at 0 and follow
    the gradient 1/2 - factor L, by an optimizer like the network's.

    A fixed weight does not change where s ends: exp(-s) absorbs it. It only
    says where the method begins.

    Example:
    >>> weighting = Uncertainty(
    ...     {"watch": 1.0, "rating": 1.0}, squared_errors=["rating"]
    ... )
    >>> weighting.build(keras.optimizers.SGD(0.1))
    >>> factors = weighting.step(np.array([0.5, 2.0], "float32"), None)
    >>> ops.convert_to_numpy(factors).tolist()
    [1.0, 0.5]

    References:
        Kendall, Gal, Cipolla. Multi-Task Learning Using Uncertainty to Weigh
        Losses for Scene Geometry and Semantics. CVPR 2018, section 3.2: the
        minimisation objective of two regressions, of a classification with
        the approximation that leaves L / sigma² + log sigma, and s := log
        sigma² for numerical stability. The paper does not say where s begins;
        here sigma is 1.
    """

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().build(optimizer)
        self.log_variances = self.add_state(
            "log_variances", np.zeros(self.num_tasks)
        )
        self._descent = self.add_descent(self.log_variances)
        self._scales = np.array(
            [
                0.5 if task in self.squared_errors else 1.0
                for task in self.task_weights
            ],
            "float32",
        )

    def weigh(self, losses: Tensor, products: Tensor | None) -> Tensor:
        scales = ops.convert_to_tensor(self._scales)
        factors = scales * ops.exp(-self.log_variances.value)
        gradient = share_of_sum(0.5 - factors * losses)
        self._descent.apply([gradient], [self.log_variances])
        return factors
