from collections.abc import Mapping

import keras

from keras_moe.compress.copies import copied
from keras_moe.compress.copies import finished
from keras_moe.compress.copies import set_part
from keras_moe.compress.examples import Examples
from keras_moe.compress.report import Report
from keras_moe.compress.report import compared
from keras_moe.layers.experts.mlp_experts import MLPExperts
from keras_moe.layers.experts.quantized_experts import QuantizedExperts
from keras_moe.private_names import each_layer
from keras_moe.types import Structure

# The attributes by which mixtures hold banks of experts.
BANKS = ("experts", "shared_experts", "group_experts", "task_experts")


def quantize(
    model: keras.Model, data: Structure = None, batch_size: int = 256
) -> tuple[keras.Model, Report]:
    """Stores the experts of a model as 8-bit integers.

    Every bank of `MLPExperts` in a mixture becomes one of `QuantizedExperts`:
    a quarter of the memory, sparse execution and all else as before. Other
    layers, lists of layers as experts, gates and biases stay as they are.

    Args:
        model: A built Keras model: functional, `Sequential` or a subclass.
            Keras must be able to save and load it, and its configuration must
            hold its mixtures, of any class (`MoE`, `MMoE`, `CGC`, `PLE`,
            `SoftMoE`).
        data: Inputs of the model, an array or a dict or list of arrays; or a
            tuple `(inputs, labels)` or `(inputs, labels, sample_weights)`.
            `None` (default) compares sizes alone.
        batch_size: Integer, defaults to 256.

    Returns:
        A model with weights of its own, compiled like `model` with a new
        optimizer, and a `Report` of its cost on `data`. `model` is unchanged.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `model` is not built, cannot be saved and loaded with
            other experts or has no mixture of `MLPExperts`, a kernel is not
            finite, or `data` holds no rows or arrays of different lengths.

    Example:
        >>> mixture = keras_moe.layers.MoE(
        ...     keras_moe.layers.TopKGate(4, k=2),
        ...     keras_moe.layers.MLPExperts(4, [64, 32]),
        ... )
        >>> model = keras.Sequential([keras.Input((64,)), mixture])
        >>> smaller, report = quantize(model)
        >>> print(report)
        weights      100.88 kB before, 28.69 kB after (28 %)

    References:
        See `keras_moe.layers.QuantizedExperts`.
    """
    examples = None if data is None else Examples(data, batch_size)
    edited = copied(model)
    quantized: dict[int, QuantizedExperts] = {}

    def replaced(bank: object) -> object:
        if type(bank) is not MLPExperts:
            return bank
        if id(bank) not in quantized:
            quantized[id(bank)] = QuantizedExperts.of(bank)
        return quantized[id(bank)]

    for layer in each_layer(edited):
        for name in BANKS:
            banks = getattr(layer, name, None)
            if isinstance(banks, Mapping):
                set_part(
                    layer, name, {t: replaced(b) for t, b in banks.items()}
                )
            elif isinstance(banks, MLPExperts):
                set_part(layer, name, replaced(banks))
    if not quantized:
        raise ValueError(
            "`model` must have a mixture of `MLPExperts`. "
            f"Received: model={model!r}"
        )
    result = finished(edited, model)
    return result, compared(model, result, {}, examples)
