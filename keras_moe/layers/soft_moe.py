from collections.abc import Sequence
from math import prod
from typing import Any

import keras
from keras import ops

from keras_moe.checks import check_size
from keras_moe.layers.checked_layer import CheckedLayer
from keras_moe.layers.configuration import serialized_parameters
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.float_inputs import as_float
from keras_moe.layers.gated_layer import as_experts
from keras_moe.layers.initialization import independent
from keras_moe.layers.routed_rows import check_mask
from keras_moe.ops._bounded import bounded
from keras_moe.ops._tracing import is_traced_for_export
from keras_moe.ops.masked_softmax import masked_softmax
from keras_moe.types import Config
from keras_moe.types import InitializerLike
from keras_moe.types import RegularizerLike
from keras_moe.types import Shape
from keras_moe.types import Tensor


@keras.saving.register_keras_serializable(package="keras_moe")
class SoftMoE(CheckedLayer):
    """Experts of averages of tokens, which all tokens get back: Soft MoE.

    Each expert computes `p` slots of a sequence, and each slot is an average of
    its `m` tokens. With the logits `L = norm(X) · scale · norm(Φ)`, `(m, n p)`,

        slots   = softmax(L over the tokens)ᵀ X          (n p, d)
        outputs = softmax(L over the slots) experts(slots)    (m, h)

    Everything is differentiable, no token is dropped, and the cost is that of
    `n p` rows, whatever `m` is. It is no gate: experts do not see single rows.
    So all tokens of a sequence have to be of one example, a token's output
    depends on later ones (it is no layer for decoders), and one NaN makes a
    sequence NaN.

    Attributes:
        slot_embeddings: `Φ`, `(d, n p)`.
        scale: A scalar; `None` with `normalize=False`.

    Args:
        experts: The experts: `MLPExperts`, or a list of Keras layers or models
            that share an output shape.
        slots_per_expert: Integer `p >= 1`. Defaults to 1.
        normalize: Boolean, whether `norm` divides tokens and the columns of
            `Φ` by their Euclidean lengths; otherwise it does nothing, and there
            is no scale. Defaults to `True`.
        slot_initializer: Of `Φ`. Defaults to `"lecun_normal"`.
        slot_regularizer: Optional regularizer of `Φ`.
        seed: Optional integer, for the initializer.
        **kwargs: `name`, `trainable`, `dtype`.

    Call arguments:
        inputs: Tensor `(..., m, d)`, sequences of tokens.
        training: Boolean, for the experts.
        mask: Boolean tensor `(..., m)`, false for padding, which is in no slot
            and whose output is zero. Defaults to the inputs' Keras mask.

    Returns:
        Tensor `(..., m, *h)`, `h` being the shape of one expert's output, of
        the layer's compute dtype.

    Raises:
        TypeError: If `experts` are not layers, or an argument has the wrong
            type.
        ValueError: If `slots_per_expert` is outside `[1, 2^31)`, or the experts
            differ in their output shapes or need the whole batch.

    Example:
        >>> layer = SoftMoE(MLPExperts(4, 8), slots_per_expert=2)
        >>> tuple(layer(np.ones((3, 16, 5))).shape)
        (3, 16, 8)

    References:
        Puigcerver et al., From Sparse to Soft Mixtures of Experts, ICLR 2024,
        section 2 (`normalize`: section 2.3).
    """

    @property
    def _smallest_ranks(self) -> dict[str, int]:
        return {"inputs": 2}

    def __init__(
        self,
        experts: Experts | Sequence[keras.layers.Layer],
        slots_per_expert: int = 1,
        normalize: bool = True,
        slot_initializer: InitializerLike = "lecun_normal",
        slot_regularizer: RegularizerLike = None,
        seed: int | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.experts = as_experts(experts)
        if self.experts.sparse_unsupported_reason is not None:
            raise ValueError(
                "`experts` must compute each row on its own: "
                f"{self.experts.sparse_unsupported_reason}. "
                f"Received: experts={self.experts!r}"
            )
        self.slots_per_expert = check_size("slots_per_expert", slots_per_expert)
        if not isinstance(normalize, bool):
            raise TypeError(
                "`normalize` must be a boolean. "
                f"Received: normalize={normalize!r}"
            )
        self.normalize = normalize
        self.slot_initializer = keras.initializers.get(slot_initializer)
        self.slot_regularizer = keras.regularizers.get(slot_regularizer)
        self.seed = seed
        self.scale = None

    @property
    def num_slots(self) -> int:
        """All slots of a sequence, `n p`."""
        return self.experts.num_experts * self.slots_per_expert

    def build(self, input_shape: Shape) -> None:
        width = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: width})
        self.slot_embeddings = self.add_weight(
            name="slot_embeddings",
            shape=(width, self.num_slots),
            initializer=independent(
                self.slot_initializer, 0, self.seed, self.name
            ),
            regularizer=self.slot_regularizer,
        )
        if self.normalize:
            self.scale = self.add_weight(
                name="scale", shape=(), initializer="ones"
            )
        if not self.experts.built:
            self.experts.build((None, width))

    @property
    def _widths(self) -> dict[str, int | None]:
        return {"inputs": self.slot_embeddings.shape[0]} if self.built else {}

    def call(
        self,
        inputs: Tensor,
        training: bool | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        inputs = as_float(inputs, self.compute_dtype)
        *leading, tokens, width = ops.shape(inputs)
        rows = ops.reshape(inputs, (-1, tokens, width))  # (B, M, D)
        if mask is not None:
            check_mask("mask", mask, tuple(inputs.shape[:-1]))
            mask = ops.reshape(ops.cast(mask, "bool"), (-1, tokens, 1))
            # Padding may hold anything, NaN included.
            rows = ops.where(mask, rows, ops.zeros_like(rows))
        logits = self._logits(rows)  # (B, M, S)
        combine = ops.softmax(logits, axis=2)
        if mask is None:
            dispatch = ops.softmax(logits, axis=1)
        else:
            dispatch = _softmax_of_kept(logits, mask)
            combine = ops.where(mask, combine, 0.0)
        slots = ops.einsum("bms,bmd->bsd", ops.cast(dispatch, rows.dtype), rows)
        outputs = self._run_experts(slots, training)  # (B, S, H)
        outputs = ops.einsum(
            "bms,bsh->bmh", combine, ops.cast(outputs, "float32")
        )
        shape = (*leading, tokens, *self._expert_shape(width))
        return ops.reshape(ops.cast(outputs, self.compute_dtype), shape)

    def _logits(self, rows: Tensor) -> Tensor:
        """Float32 `(B, M, S)`: a rounded logit is another average."""
        rows = bounded(rows)
        slots = ops.cast(self.slot_embeddings, "float32")  # (D, S)
        if self.normalize:
            rows = ops.normalize(rows, axis=-1)
            slots = ops.normalize(slots, axis=0)
            slots = slots * ops.cast(self.scale, "float32")
        return ops.matmul(rows, slots)

    def _run_experts(self, slots: Tensor, training: bool | None) -> Tensor:
        """Each expert on its slots: `(B, S, D)` to `(B, S, H)`."""
        experts, per_expert = self.experts.num_experts, self.slots_per_expert
        batch, _, width = ops.shape(slots)
        # (B, E, P, D) to (E, B, P, D): the rows of an expert lie together.
        grouped = ops.reshape(slots, (batch, experts, per_expert, width))
        grouped = ops.transpose(grouped, (1, 0, 2, 3))
        rows = ops.reshape(grouped, (-1, width))  # (E B P, D)
        size = prod(self._expert_shape(width))
        if is_traced_for_export(rows):
            # Groups have no place in such a file: all experts compute all.
            outputs = ops.reshape(
                self.experts(rows, training=training),
                (experts, -1, experts, size),  # (E, B P, E, H)
            )
            outputs = ops.stack([outputs[e, :, e] for e in range(experts)])
        else:
            sizes = ops.full((experts,), batch * per_expert, dtype="int32")
            outputs = self.experts(rows, group_sizes=sizes, training=training)
        outputs = ops.reshape(outputs, (experts, batch, per_expert, size))
        outputs = ops.transpose(outputs, (1, 0, 2, 3))  # (B, E, P, H)
        return ops.reshape(outputs, (batch, self.num_slots, size))

    def _expert_shape(self, width: int | None) -> tuple[Any, ...]:
        return self.experts.expert_output_shape((None, width))[1:]

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], *self._expert_shape(input_shape[-1]))

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **serialized_parameters(self),
            "experts": keras.saving.serialize_keras_object(self.experts),
            "slots_per_expert": self.slots_per_expert,
            "normalize": self.normalize,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: Config) -> "SoftMoE":
        experts = keras.saving.deserialize_keras_object(config["experts"])
        return cls(**{**config, "experts": experts})


def _softmax_of_kept(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the tokens `(B, M, S)` that a mask `(B, M, 1)` keeps.

    A sequence that is all padding has zeros.
    """
    any_kept = ops.any(mask, axis=1, keepdims=True)  # (B, 1, 1)
    kept = ops.logical_or(mask, ops.logical_not(any_kept))
    kept = ops.broadcast_to(kept, ops.shape(logits))
    weights = masked_softmax(logits, kept, axis=1)
    return ops.where(any_kept, weights, ops.zeros_like(weights))
