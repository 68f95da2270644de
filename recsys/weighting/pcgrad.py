from typing import Any

import keras
from keras import ops

from keras_moe.types import Tensor
from recsys.private_names import track_variable
from recsys.weighting.task_weighting import Gradients
from recsys.weighting.task_weighting import TaskWeighting


class PCGrad(TaskWeighting):
    """Takes out of each task's gradient what works against another's.

    From the gradient g_i of each task, by all trainable weights, for the
    other tasks j in a random order,

        g_i <- g_i - (g_i . g_j) / |g_j|² g_j    where g_i . g_j < 0

    with the g_j as they were, and the step follows the sum of the results.

    All of them are linear in the original gradients, and what is asked of
    those is their products. So the sum is found as a factor for each task, of
    the products alone, and no gradient is copied: the factors are what each
    g_j has been multiplied by in all.

    Example:
    >>> weighting = PCGrad({"watch": 1.0, "rating": 1.0})
    >>> weighting.build(keras.optimizers.SGD(0.1))
    >>> gradients = np.array([[1.0, 0.0], [-1.0, 1.0]], "float32")
    >>> factors = weighting.step(np.ones(2), gradients @ gradients.T)
    >>> ops.convert_to_numpy(factors).tolist()
    [2.0, 1.5]

    References:
        Yu, Kumar, Gupta, Levine, Hausman, Finn. Gradient Surgery for
        Multi-Task Learning. NeurIPS 2020, algorithm 1. The weights of a
        task's own head are among the weights there as here: they add to
        |g_j|², and not to the products of two tasks.
    """

    gradients = Gradients.ALL

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        super().build(optimizer)
        self._random = keras.random.SeedGenerator(self.seed)
        track_variable(self._optimizer, self._random.state)

    def weigh(self, losses: Tensor, products: Any) -> Tensor:
        tasks = self.num_tasks
        drawn = keras.random.uniform((tasks, tasks), seed=self._random)
        order = ops.argsort(drawn, axis=1)  # (i, turn): which j has its turn
        norms = ops.diagonal(products)
        # Row i: what the gradient of task i is made of now, (i, j)
        parts = ops.eye(tasks, dtype="float32")
        for turn in range(tasks):
            chosen = ops.one_hot(order[:, turn], tasks, dtype="float32")
            chosen = chosen * (1 - ops.eye(tasks, dtype="float32"))
            dots = ops.sum(ops.matmul(parts, products) * chosen, axis=1)
            squares = ops.matmul(chosen, norms)
            against = (dots < 0) & (squares > 0)
            share = dots / ops.where(squares > 0, squares, 1.0)
            share = ops.where(against, share, 0.0)
            parts = parts - share[:, None] * chosen
        return ops.sum(parts, axis=0)
