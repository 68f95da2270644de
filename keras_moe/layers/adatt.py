from collections.abc import Mapping
from math import sqrt
from typing import Any

import keras
from keras import ops

from keras_moe.layers.cgc import CGC
from keras_moe.layers.cgc import Banks
from keras_moe.layers.gates.gate import Gate
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


class NativeWeights(Gate):
    """One trained number per expert, the same for all examples.

    Neither positive nor with a sum of 1. A single expert has the weight 1, and
    nothing is trained.

    Args:
        num_experts: Integer `n >= 1`.
        seed: Optional integer.

    Returns:
        Float32 tensor `(n,)`, at first uniform within `±1/√n`.
    """

    always_dense = True
    _fewest_experts = 1

    def __init__(self, num_experts: int, seed: int | None = None) -> None:
        super().__init__(num_experts, static=True, seed=seed)

    def build(self, input_shape: Shape) -> None:
        self.values = None
        if self.num_experts > 1:
            bound = 1 / sqrt(self.num_experts)
            self.values = self.add_independent_weight(
                "values",
                (self.num_experts,),
                keras.initializers.RandomUniform(-bound, bound),
            )

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        if self.values is None:
            return ops.ones((1,), "float32")
        return ops.convert_to_tensor(self.values)


@keras.saving.register_keras_serializable(package="keras_moe")
class AdaTT(CGC):
    """Adaptive task-to-task fusion: each task sees the experts of all tasks.

    Task `t` has a gate over all experts, the shared ones, if any, and then
    those of each task in the order of `gates`. What it fuses by the gate is
    added to a linear combination of its own experts `f_t,i`, its native ones:

        y_t = sum_i v_t,i f_t,i(x_t) + sum_i g_t(x_t)_i f_i(x_u),

    `x_u` being the stream of the task that expert `i` belongs to. The `v_t`
    are numbers that are trained, the same for all examples; a single native
    expert has 1. So a task learns by itself and, as its gate finds them of use,
    by the other tasks' experts. Several levels make a `PLE`.

    Every example needs all native experts, which run densely. `"auto"` still
    runs the shared experts sparsely, with sparse gates.

    Args:
        gates: Dict of task name to gate over all experts. No task is called
            `"shared"`.
        shared_experts: Experts of no task: `MLPExperts`, a list of Keras
            layers or models, or `None` for the variant with task-specific
            experts only.
        task_experts: Dict of task name to its native experts, like
            `shared_experts`.
        shared_gate: Gate over all experts for the shared stream of an inner
            level, which also gets a linear combination of the shared experts.
            Defaults to `None`.
        execution: `"dense"` or `"auto"` (default), as in `CGC`.
        seed: Optional integer, for the initial `v_t`, which are uniform within
            `±1/√n` for `n` native experts.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs, gate_inputs, training, mask, budget: Those of `CGC`. With no
            shared experts, a dict of inputs has no `"shared"`.

    Returns:
        As `CGC`.

    Raises:
        TypeError, ValueError: Those of `CGC`; `execution` is `"sparse"`, or
            there are `self_gates`.

    Example:
        >>> layer = AdaTT(
        ...     {task: SoftmaxGate(4) for task in ("watch", "rating")},
        ...     None,
        ...     {task: MLPExperts(2, 8) for task in ("watch", "rating")},
        ... )
        >>> outputs = layer(np.ones((2, 3)))
        >>> {task: tuple(y.shape) for task, y in outputs.items()}
        {'watch': (2, 8), 'rating': (2, 8)}

    References:
        Li et al., AdaTT: Adaptive Task-to-Task Fusion Network for Multitask
        Learning in Recommendations, KDD 2023.
    """

    _needs_shared = False

    def __init__(
        self,
        gates: Mapping[str, Gate],
        shared_experts: Banks | None,
        task_experts: Mapping[str, Banks],
        shared_gate: Gate | None = None,
        execution: str = "auto",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if execution == "sparse":
            raise ValueError(
                "`execution` must be 'dense' or 'auto' for an AdaTT: each "
                "example needs all experts of its tasks. "
                "Received: execution='sparse'"
            )
        if "self_gates" in kwargs:
            raise ValueError(
                "`self_gates` must be left out of an AdaTT, which has weights "
                "of each task's own experts instead. "
                f"Received: self_gates={kwargs['self_gates']!r}"
            )
        super().__init__(
            gates,
            shared_experts,
            task_experts,
            shared_gate,
            execution,
            **kwargs,
        )
        self.seed = seed
        self.self_gates = {
            output: NativeWeights(self._banks[output].num_experts, seed)
            for output in self._gate_of
        }
        self._connect()

    @property
    def _budget_gates(self) -> list[Gate]:
        return list(self._gate_of.values())

    def _groups(self, output: str) -> list[str]:
        return list(self._banks)

    def get_config(self) -> Config:
        config = super().get_config()
        del config["self_gates"]  # They follow from the experts.
        return {**config, "seed": self.seed}
