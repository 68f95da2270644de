from functools import partial

import keras

from keras_moe.types import Logs
from recsys.distribution.process_group import ProcessGroup

# What keeps the random numbers of processes apart: 2^32 over the golden ratio.
_STRIDE = 0x9E3779B1


class SameState(keras.callbacks.Callback):
    """Keeps the state of a model the same in all processes that train it.

    They begin with the weights of the first one. What is learned by gradients
    stays the same by itself; the rest, such as a gate's moving threshold, each
    process moves by its own rows, and is averaged at the end of an epoch. Each
    draws random numbers of its own: its rows would have the noise of others'.

    Args:
        group: The processes.
    """

    def __init__(self, group: ProcessGroup) -> None:
        super().__init__()
        self.group = group

    def on_train_begin(self, logs: Logs | None = None) -> None:
        model = self.model
        self.group.copy_of_first(model.variables)
        self.group.copy_of_first(model.optimizer.variables)
        for variable in model.non_trainable_variables:
            if variable.name == "seed_generator_state":
                start = variable.numpy().tolist()
                self.group.on_each(partial(self._set_apart, variable, *start))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        for variable in self.model.non_trainable_variables:
            if keras.backend.is_float_dtype(variable.dtype):
                self.group.on_each(partial(self._average, variable))

    def _set_apart(
        self, variable: keras.Variable, seed: int, count: int
    ) -> None:
        seed += self.group.index * _STRIDE
        variable.assign([seed % (1 << 31), count])

    def _average(self, variable: keras.Variable) -> None:
        variable.assign(self.group.mean(variable.value))
