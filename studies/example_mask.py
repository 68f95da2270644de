from typing import Any

import keras
from keras import ops

# Multipliers of the 32-bit finalizer "lowbias32" (Wellons 2018), signed.
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)


@keras.saving.register_keras_serializable(package="studies")
class ExampleMask(keras.layers.Layer):
    """Gives each example a fixed mask that has nothing to do with its values.

    The mask of example `i` is drawn from a Bernoulli distribution, by a hash
    of `i`, the unit and `salt`: nothing is stored, and every backend draws
    the same. With units that are active for all, it is example-tied dropout;
    rows of a test have masks of their own, where Maini et al. only keep the
    units that all have, and Shaier et al. do not say.

    Args:
        keep_rate: Number in `(0, 1]`, the probability of a unit.
        salt: Integer that tells one layer's masks from another's.
        always_active: Number in `[0, 1)`, defaults to 0. The share of the
            units, the first ones, that are active for all examples.
        **kwargs: As any layer's.

    Call arguments:
        inputs: Tensor `(B, N)`, what is masked.
        examples: Int32 `(B,)`, the number of each example.

    Returns:
        Tensor `(B, N)`.

    References:
        Shaier et al., section 4.2.1: Bernoulli masking, example-tied
        dropout. Maini et al., Can Neural Network Memorization Be Localized?
        ICML 2023, section 5.
    """

    def __init__(
        self,
        keep_rate: float,
        salt: int,
        always_active: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.keep_rate = keep_rate
        self.salt = salt
        self.always_active = always_active

    def call(self, inputs: Any, examples: Any) -> Any:
        units = ops.arange(inputs.shape[-1], dtype="int32")
        # JAX takes no Python integer beyond 32 bits.
        salt = (self.salt * _FIRST + (1 << 31)) % (1 << 32) - (1 << 31)
        rows = _mixed(ops.cast(examples, "int32") + salt)
        bits = _mixed(rows[:, None] + units[None, :] * _GOLDEN)  # (B, N)
        # 24 bits are exact in float32.
        uniform = ops.cast(_shifted(bits, 8), "float32") / float(1 << 24)
        first = round(self.always_active * inputs.shape[-1])
        active = ops.logical_or(uniform < self.keep_rate, units < first)
        return ops.where(active, inputs, ops.zeros_like(inputs))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "keep_rate": self.keep_rate,
            "salt": self.salt,
            "always_active": self.always_active,
        }


def _shifted(x: Any, bits: int) -> Any:
    """A logical shift to the right: the sign's bit is one of the number's."""
    return ops.bitwise_and(ops.right_shift(x, bits), (1 << (32 - bits)) - 1)


def _mixed(x: Any) -> Any:
    """The finalizer: int32 to int32, products modulo 2^32."""
    x = ops.bitwise_xor(x, _shifted(x, 16)) * _FIRST
    x = ops.bitwise_xor(x, _shifted(x, 15)) * _SECOND
    return ops.bitwise_xor(x, _shifted(x, 16))
