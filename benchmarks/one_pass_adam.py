"""Adam that reads and writes every weight and its moments once a step."""

from collections.abc import Sequence
from typing import Any

import keras


class OnePassAdam(keras.optimizers.Adam):
    """Adam in one pass: reads gradient, m, v and w, writes m, v and w.

    The least that an optimizer of all weights can do, for limits in
    benchmarks: without weight decay, clipping, AMSGrad and several replicas.

    On TensorFlow a step is one `ResourceApplyAdam` a weight, on PyTorch one
    call of the fused kernel for all weights. On JAX the update is part of the
    compiled step, of which XLA makes one loop a weight over buffers that are
    given back to it: there, it is Keras's own.
    """

    def _backend_update_step(
        self,
        grads: Sequence[Any],
        trainable_variables: Sequence[Any],
        learning_rate: Any,
    ) -> None:
        update = {"tensorflow": self._on_tensorflow, "torch": self._on_torch}
        backend = keras.backend.backend()
        step = update.get(backend, super()._backend_update_step)
        step(grads, trainable_variables, learning_rate)

    def _moments(self, variable: Any) -> tuple[Any, Any]:
        index = self._get_variable_index(variable)
        return self._momentums[index].value, self._velocities[index].value

    def _on_tensorflow(
        self, grads: Sequence[Any], variables: Sequence[Any], rate: Any
    ) -> None:
        import tensorflow as tf

        step = tf.cast(self.iterations + 1, tf.float32)
        for gradient, variable in zip(grads, variables, strict=True):
            momentum, velocity = self._moments(variable)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.value.handle,
                m=momentum.handle,
                v=velocity.handle,
                beta1_power=self.beta_1**step,
                beta2_power=self.beta_2**step,
                lr=rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=tf.convert_to_tensor(gradient),  # Of tables, rows.
            )

    def _on_torch(
        self, grads: Sequence[Any], variables: Sequence[Any], rate: Any
    ) -> None:
        import torch

        moments = [self._moments(variable) for variable in variables]
        step = self.iterations.value.to(torch.float32) + 1
        with torch.no_grad():
            torch._fused_adam_(
                [variable.value for variable in variables],
                list(grads),
                [momentum for momentum, _ in moments],
                [velocity for _, velocity in moments],
                [],
                [step.clone() for _ in variables],
                lr=float(rate),
                beta1=self.beta_1,
                beta2=self.beta_2,
                weight_decay=0.0,
                eps=self.epsilon,
                amsgrad=False,
                maximize=False,
            )
