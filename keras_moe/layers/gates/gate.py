from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_integer
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.initialization import Initializer
from keras_moe.layers.initialization import independent

Shape = tuple[int | None, ...]


@keras.saving.register_keras_serializable(package="keras_moe")
class Gate(keras.layers.Layer):
    """Base class of the gates: how much each expert counts for each example.

    A gate maps inputs `(..., p)` to float32 weights `(..., n)`, `n` being
    `num_experts`; a static gate ignores its inputs and returns `(n,)`. It
    computes in float32 under any dtype policy, since a rounded routing
    decision is another decision.

    A subclass implements `build` and `compute_weights`, sets the class
    attributes below where they differ, and adds its arguments to
    `get_config`, but for initialisers and regularisers: attributes whose
    names end in `_initializer` or `_regularizer` are there already. Losses
    go through `add_training_loss`.

    Attributes:
        k: Bound on the experts per example, or `None` for a dense gate.
        static: Whether the weights do not depend on the example.
        always_sparse: Whether no example ever has more than `k` weights
            that are not zero. `False` for gates that become sparse while
            they train.
        feature_rank: How many trailing axes of the input describe one
            example: 1 for features `(..., p)`, 0 for ids `(...)`.

    Args:
        num_experts: Integer `n >= 2`.
        k: Integer in `[1, n]`, or `None` for a dense gate.
        static: Boolean, defaults to `False`.
        seed: Optional integer. Seeds the initialisers that have no seed of
            their own, and the noise of gates that draw any.
        **kwargs: `name`, `trainable`. A `dtype` is accepted and has no
            effect: a gate is float32.

    Call arguments:
        inputs: Tensor `(..., p)`, or ids `(...)` where `feature_rank` is 0.
        training: Boolean. Losses are added, and noise drawn, only when true.

    Returns:
        Float32 tensor `(..., n)`; `(n,)` for a static gate.

    Raises:
        TypeError: If `num_experts` or `k` is not an integer.
        ValueError: If `num_experts < 2` or `k` is outside `[1, num_experts]`.
    """

    always_sparse = False
    feature_rank = 1

    def __init__(
        self,
        num_experts: int,
        k: int | None = None,
        static: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs["dtype"] = "float32"
        super().__init__(**kwargs)
        self.num_experts = check_integer("num_experts", num_experts, 2)
        self.k = None if k is None else check_integer("k", k, 1, num_experts)
        if not isinstance(static, bool):
            raise TypeError(
                f"`static` must be a boolean. Received: static={static!r}"
            )
        self.static = static
        self.seed = seed

    def add_independent_weight(
        self,
        name: str,
        shape: Shape,
        initializer: Initializer,
        regularizer: Any = None,
    ) -> Any:
        """Adds a weight whose initial values no other weight shares."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=independent(initializer, len(self.weights), self.seed),
            regularizer=regularizer,
        )

    def add_training_loss(self, losses: Any, training: bool | None) -> None:
        """Adds the mean of the examples' `losses`, while training.

        Args:
            losses: Tensor `(...)`, one loss an example; a scalar for a
                static gate. A batch without examples has the loss 0.
            training: Boolean, whether to add it.
        """
        if training:
            count = ops.cast(ops.maximum(ops.size(losses), 1), losses.dtype)
            self.add_loss(ops.sum(losses) / count)

    def compute_weights(self, inputs: Any, training: bool | None) -> Any:
        """Returns the weights `(..., n)`, or `(n,)` for a static gate."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `compute_weights`."
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return self.compute_weights(inputs, training)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        if self.static:
            return (self.num_experts,)
        leading = input_shape[: len(input_shape) - self.feature_rank]
        return (*leading, self.num_experts)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["dtype"]
        return {
            **config,
            **serialized_parameters(self),
            "num_experts": self.num_experts,
            "seed": self.seed,
        }
