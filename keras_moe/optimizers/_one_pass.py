from abc import ABC
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras

from keras_moe.private_names import StepsOfAll
from keras_moe.types import Tensor

if TYPE_CHECKING:
    import torch


class OnePass(StepsOfAll, ABC):
    """Mixed into an optimizer of Keras, lets kernels of the backend update.

    A kernel reads and writes a weight and its slots once. A weight that it does
    not know takes Keras's update, as all do on JAX, where XLA fuses them.
    """

    # The kinds of devices that have the kernel of PyTorch.
    _torch_devices: tuple[str, ...]

    @property
    @abstractmethod
    def _has_kernel(self) -> bool:
        """Returns whether the kernel supports these options."""

    @abstractmethod
    def _tensorflow_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        """Changes one weight by the kernel of TensorFlow."""

    @abstractmethod
    def _torch_step(
        self,
        gradients: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        """Changes weights by the kernel of PyTorch."""

    def update_step(
        self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor
    ) -> None:
        """Changes one weight, called by Keras on TensorFlow and JAX."""
        if keras.backend.backend() == "tensorflow" and self._has_kernel:
            from keras_moe.optimizers import _tensorflow_kernels as kernels

            if kernels.takes(variable, gradient):
                self._tensorflow_step(gradient, variable, learning_rate)
                return
        base: Any = super()
        base.update_step(gradient, variable, learning_rate)

    def _update_all(
        self,
        gradients: Sequence["torch.Tensor"],
        variables: Sequence[keras.Variable],
        learning_rate: "torch.Tensor",
    ) -> None:
        from keras_moe.optimizers import _torch_kernels as kernels

        # Keras computes all of several types by scalars of the first one's.
        may_fuse = self._has_kernel and all(
            variable.dtype == "float32" for variable in variables
        )
        fused: list[tuple[torch.Tensor, keras.Variable]] = []
        plain: list[tuple[torch.Tensor, keras.Variable]] = []
        for gradient, variable in zip(gradients, variables, strict=True):
            is_fused = may_fuse and kernels.takes(
                variable, gradient, self._torch_devices
            )
            (fused if is_fused else plain).append((gradient, variable))
        if fused:
            gradients, variables = zip(*fused, strict=True)
            self._torch_step(gradients, variables, learning_rate)
        if plain:
            gradients, variables = zip(*plain, strict=True)
            super()._update_all(gradients, variables, learning_rate)
