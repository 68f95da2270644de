from abc import ABC
from abc import abstractmethod
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from enum import Enum
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_moe.types import Tensor
from recsys.private_names import track_variable


class Gradients(Enum):
    """Of what a method wants the tasks' gradients."""

    NOTHING = "nothing"
    SHARED = "shared weights"
    ALL = "all trainable weights"


class TaskWeighting(ABC):
    """Adaptive weights of the tasks' losses, step by step.

    A loss is what Keras would add up: a task's loss times its fixed weight.
    What the method says is a factor on top, so fixed weights are those of all
    factors 1. A task of weight 0 takes no part, and neither do regularizers.

    All that changes while training is state of the optimizer that `build` is
    given. It is saved with the optimizer's own, goes through a step on JAX
    with it, and never becomes part of a saved model.

    Args:
        task_weights: The fixed weight of each task's loss.
        shared_weights: The last weights that all tasks share, for methods
            that ask for the gradients of these. None unless given.
        squared_errors: The tasks whose loss is a squared error; those of all
            others are the negative logarithm of a probability. None unless
            given.
        seed: Seed of what a method draws. Defaults to 0.

    Attributes:
        gradients: Of which weights `weigh` needs the gradients.
        task_weights: Those above 0.
    """

    gradients = Gradients.NOTHING

    def __init__(
        self,
        task_weights: Mapping[str, float],
        shared_weights: Sequence[keras.Variable] = (),
        squared_errors: Collection[str] = (),
        seed: int = 0,
    ) -> None:
        self.task_weights = {
            task: weight for task, weight in task_weights.items() if weight
        }
        self.shared_weights = list(shared_weights)
        self.squared_errors = frozenset(squared_errors)
        self.seed = seed

    @property
    def num_tasks(self) -> int:
        """Number of weighted tasks."""
        return len(self.task_weights)

    def build(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Creates the state, before the first step.

        Args:
            optimizer: That of the model.
        """
        self._optimizer = optimizer
        self._sums = self.add_state("sums_of_weights", np.zeros(self.num_tasks))
        self._steps = self.add_state("steps_of_epoch", np.zeros(()))

    def add_state(self, name: str, start: np.ndarray | float) -> keras.Variable:
        """Adds a float32 variable to the state of the optimizer."""
        variable = self._optimizer.add_variable(
            np.shape(start), dtype="float32", name=f"task_weighting_{name}"
        )
        variable.assign(start)
        return variable

    def add_descent(
        self, variable: keras.Variable
    ) -> keras.optimizers.Optimizer:
        """Returns an optimizer of a state, like that of the model's weights.

        With Adam or Adagrad, which treat each number on its own, the two
        together are one optimizer of both.
        """
        # That of all other weights, where tables have one of their own.
        outer = getattr(self._optimizer, "inner", self._optimizer)
        descent = type(outer).from_config(outer.get_config())
        descent.build([variable])
        for state in descent.variables:
            track_variable(self._optimizer, state)
        return descent

    def step(self, losses: Tensor, products: Tensor | None) -> Tensor:
        """Returns the factors of a step, and counts them for the epoch.

        Args:
            losses: Float32 tensor `(tasks,)`.
            products: Float32 tensor `(tasks, tasks)`, the inner products of
                the gradients of the losses, or `None` where none are needed.
        """
        losses, products = map(_as_constant, (losses, products))
        factors = ops.stop_gradient(self.weigh(losses, products))
        self._sums.assign_add(factors)
        self._steps.assign_add(1.0)
        return factors

    @abstractmethod
    def weigh(self, losses: Tensor, products: Tensor | None) -> Tensor:
        """Returns the factors of a step `(tasks,)`, and changes the state.

        The arguments are those of `step`.
        """

    def end_epoch(self) -> dict[str, float]:
        """Ends an epoch; returns each task's mean weight in its steps.

        Returns:
            The factor times the fixed weight, comparable with `task_weights`.
        """
        sums = ops.convert_to_numpy(self._sums)
        means = sums / max(float(ops.convert_to_numpy(self._steps)), 1.0)
        for counted in (self._sums, self._steps):
            counted.assign(np.zeros(counted.shape))
        return {
            task: weight * float(mean)
            for (task, weight), mean in zip(
                self.task_weights.items(), means, strict=True
            )
        }


def _as_constant(known: Any) -> Any:
    """A tensor that nothing is differentiated by."""
    if known is None:
        return None
    return ops.stop_gradient(ops.convert_to_tensor(known, dtype="float32"))
