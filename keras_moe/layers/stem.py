from collections.abc import Mapping

import keras

from keras_moe.layers.cgc import CGC
from keras_moe.layers.cgc import SHARED
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class STEM(CGC):
    """All experts forward, each task's own backward, on streams of the tasks.

    Each task has inputs of its own, such as embeddings that only this task
    trains, beside those that all share. Task `t` has a gate over all experts,
    the shared ones and then those of each task in the order of `gates`; but
    its loss changes no other task's experts, nor their inputs:

        y_t = sum_i g_t(x_t + x_s)_i f_s,i(x_s)
              + sum_u sum_i g_t(x_t + x_s)_(u,i) stop_(u != t)(f_u,i(x_u)),

    `stop` being the identity without a gradient. The gate itself is trained by
    all of these experts. With the `shared_gate` of an inner level of a `PLE`,
    all experts are trained through the shared stream, by each task.

    Args:
        gates: Dict of task name to gate over all experts. No task is called
            `"shared"`.
        shared_experts: The experts `f_s,i`: `MLPExperts`, or a list of Keras
            layers or models.
        task_experts: Dict of task name to the experts `f_u,i`, like
            `shared_experts`. All experts share one output shape.
        shared_gate: Gate over all experts, which looks at the shared stream,
            or `None` (default).
        execution: `"dense"`, `"sparse"` or `"auto"` (default), as in `CGC`.
        **kwargs: `self_gates` of `CGC`, `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Dict with a tensor `(..., *features)`, all of one shape, for
            each task, `x_t`, and for `"shared"`, `x_s`; or one tensor for all.
        gate_inputs, training, mask, budget: Those of `CGC`.

    Returns:
        As `CGC`.

    Raises:
        TypeError, ValueError: Those of `CGC`.

    Example:
        >>> layer = STEM(
        ...     {task: SoftmaxGate(6) for task in ("watch", "rating")},
        ...     shared_experts=MLPExperts(2, 8),
        ...     task_experts={
        ...         task: MLPExperts(2, 8) for task in ("watch", "rating")
        ...     },
        ... )
        >>> streams = ("watch", "rating", "shared")
        >>> outputs = layer({name: np.ones((2, 3)) for name in streams})
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'watch': (2, 8), 'rating': (2, 8)}

    References:
        Su et al., STEM: Unleashing the Power of Embeddings for Multi-Task
        Recommendation, AAAI 2024 (All Forward Task-specific Backward
        gating).
    """

    def _groups(self, output: str) -> list[str]:
        return list(self._banks)

    def _is_stopped(self, output: str, group: str) -> bool:
        return SHARED not in (output, group) and output != group

    def _gate_input(self, output: str, streams: Mapping[str, Tensor]) -> Tensor:
        if output == SHARED:
            return streams[SHARED]
        return streams[output] + streams[SHARED]
