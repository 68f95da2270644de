from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.distribution.process_group import share_of_sum
from recsys.weighting.task_weighting import Gradients
from recsys.weighting.task_weighting import TaskWeighting

_SMALLEST = 1e-6  # A factor below 0 would have a task learn to be wrong.


class GradNorm(TaskWeighting):
    """Brings the tasks' gradients to norms at which all learn at one rate.

    With the factors w and the norms n_i of the gradients of the losses L_i by
    the weights W that all tasks share,

        G_i = w_i n_i
        r_i = (L_i / L_i(0)) / mean over j of (L_j / L_j(0))
        w <- w - a step of descent along sign(G_i - mean(G) r_i^alpha) n_i

    which is the gradient of the sum of |G_i - mean(G) r_i^alpha| by w with
    mean(G) r_i^alpha held constant. The factors are then scaled to a sum of
    the number of tasks. A step of the network has those of before its update,
    1 in the first step.

    The steps of descent are those of an optimizer like the network's, and the
    shared weights are those of the last experts, or of the shared bottom,
    that all tasks have. L_i(0) is the loss of the first batch with a label of
    the task. Factors stay above 0.

    Args:
        *args: Those of `TaskWeighting`.
        alpha: Float, how strongly slow tasks are favoured; 0 has all norms
            equal. Defaults to 1.5.
        **kwargs: Those of `TaskWeighting`.

    Raises:
        ValueError: No weights are shared.

    Example:
    >>> weighting = GradNorm(
    ...     {"watch": 1.0, "rating": 1.0},
    ...     shared_weights=[keras.Variable([1.0])],
    ... )
    >>> weighting.build(keras.optimizers.SGD(0.1))
    >>> losses, products = np.ones(2, "float32"), np.diag([1.0, 4.0])
    >>> for _ in range(2):
    ...     factors = weighting.step(losses, products.astype("float32"))
    >>> ops.convert_to_numpy(factors).astype(float).round(3).tolist()
    [1.158, 0.842]

    References:
        Chen, Badrinarayanan, Lee, Rabinovich. GradNorm: Gradient Normalization
        for Adaptive Loss Balancing in Deep Multitask Networks. ICML 2018,
        section 3, equations 1 and 2, and algorithm 1. Which optimizer follows
        the gradient of w, and what keeps w above 0, the algorithm leaves
        open.
    """

    gradients = Gradients.SHARED

    def __init__(self, *args: Any, alpha: float = 1.5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.shared_weights:
            raise ValueError(
                "`shared_weights` must be at least one variable for GradNorm. "
                "Received: none"
            )
        self.alpha = alpha

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().build(optimizer)
        self.factors = self.add_state("factors", np.ones(self.num_tasks))
        self._first = self.add_state("first_losses", np.zeros(self.num_tasks))
        self._descent = self.add_descent(self.factors)

    def weigh(self, losses: Tensor, products: Any) -> Tensor:
        factors = ops.copy(self.factors.value)
        first = ops.where(self._first.value > 0, self._first.value, losses)
        self._first.assign(first)
        # A task without a label so far learns as the others do.
        known = first > 0
        ratios = ops.where(known, losses / ops.where(known, first, 1.0), 1.0)
        mean = ops.mean(ratios)
        rates = ratios / ops.where(mean > 0, mean, 1.0)
        norms = ops.sqrt(ops.maximum(ops.diagonal(products), 0.0))
        weighted = factors * norms
        targets = ops.mean(weighted) * rates**self.alpha
        gradient = ops.sign(weighted - targets) * norms
        self._descent.apply([share_of_sum(gradient)], [self.factors])
        moved = ops.maximum(self.factors.value, _SMALLEST)
        self.factors.assign(self.num_tasks * moved / ops.sum(moved))
        return factors
