from typing import Any

import keras

from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.gates.gate import check_gate
from keras_moe.layers.gates.wrapper_gate import WrapperGate
from keras_moe.layers.shared_parts import serialized
from keras_moe.layers.sinkhorn_permutation import SinkhornPermutation
from keras_moe.types import Config
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class PermutedGate(WrapperGate):
    """Any gate, followed by a learned permutation of the experts.

    Computes `P g(x)`. It is meant to help a gate out of a bad start: which
    expert an entry of `g` goes to is searched for in the first epochs, for
    which training needs a `keras_moe.callbacks.PermutationSearch`. See
    `SinkhornPermutation` for the two phases.

    In the search every expert has some weight while training. After it, and
    in evaluation always, the gate is as sparse as the one inside.

    Attributes:
        k, static, feature_rank, on_simplex: Those of the gate inside.

    Args:
        gate: The gate `g`, for example `COMETGate(num_experts=16, k=2)`.
        permutation: A `SinkhornPermutation`, which several gates may share:
            in the published models, all gates of a mixture do. A copy of a
            mixture or of a `PLE` by its configuration, as
            `keras.models.clone_model` makes it, has one as well; where gates
            of several layers of a model share one, only a `.keras` file keeps
            that. Defaults to `None`: one of its own.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no
            effect: a gate is float32.

    Call arguments:
        inputs: Inputs of `gate`.
        training: Boolean. Losses are added, and `P` softened, only when true.
        mask: Boolean tensor `(...)`, false for padding. Defaults to the
            inputs' Keras mask, if any.

    Returns:
        Float32 tensor `(..., n)`, or `(n,)` where `gate` is static, with the
        sum of `g(x)`.

    Raises:
        TypeError: If `gate` is not a gate, or `permutation` is not a
            `SinkhornPermutation`.
        ValueError: If they differ in `num_experts`, `gate` is permuted itself,
            or the weight of a loss is given, which the gate inside may have.

    Example:
        >>> permutation = SinkhornPermutation(num_experts=4)
        >>> gates = {
        ...     task: PermutedGate(TopKGate(4, k=2), permutation)
        ...     for task in ("watch", "rating")
        ... }
        >>> outputs = MMoE(gates, MLPExperts(4, 8))(np.ones((2, 3)))
        >>> tuple(outputs["watch"].shape)
        (2, 8)

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, section 4.
    """

    _facts = (
        *WrapperGate._facts,
        "always_dense",
        "dense_in_training",
        "held_at_k",
        "sparse_at",
    )
    _parts = ("gate", "permutation")

    def __init__(
        self,
        gate: Gate,
        permutation: SinkhornPermutation | None = None,
        **kwargs: Any,
    ) -> None:
        check_gate("gate", gate)
        if isinstance(gate, PermutedGate):
            raise ValueError(
                "`gate` must not be a PermutedGate: two permutations compose "
                "to one. "
                f"Received: gate={gate!r}"
            )
        super().__init__(gate, k=gate.k, **kwargs)
        if permutation is None:
            permutation = SinkhornPermutation(gate.num_experts, seed=gate.seed)
        _check_permutation(permutation, gate)
        self.permutation = permutation
        permutation.num_gates += 1

    def is_bounded(self, training: bool | None) -> bool:
        # A soft permutation gives weight to all experts.
        return not training and self.gate.is_bounded(training)

    def build(self, input_shape: Shape) -> None:
        super().build(input_shape)
        if not self.permutation.built:
            self.permutation._place = self._place
            self.permutation.build((None, self.num_experts))

    def compute_weights(
        self, inputs: Tensor, training: bool | None, mask: Tensor | None
    ) -> Tensor:
        weights = self.gate(inputs, training=training, mask=mask)
        return self.permutation(weights, training=training)

    def compute_selectors(self, inputs: Tensor) -> Tensor | None:
        """Returns the selectors of the gate inside, before the permutation."""
        return self.gate.compute_selectors(inputs)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "permutation": serialized(
                self.permutation, is_shared=self.permutation.num_gates > 1
            ),
        }


def _check_permutation(permutation: object, gate: Gate) -> None:
    if not isinstance(permutation, SinkhornPermutation):
        raise TypeError(
            "`permutation` must be a SinkhornPermutation or None. Received: "
            f"permutation={permutation!r} of type {type(permutation).__name__}"
        )
    if permutation.num_experts != gate.num_experts:
        raise ValueError(
            "`permutation` must have as many experts as `gate`, "
            f"{gate.num_experts}. Received: permutation with "
            f"num_experts={permutation.num_experts}"
        )
