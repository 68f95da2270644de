import keras
from keras import ops

from keras_moe.types import DTypeLike
from keras_moe.types import Tensor


def as_float(inputs: Tensor, dtype: DTypeLike) -> Tensor:
    """Inputs as a layer multiplies them; Keras casts floats alone.

    Args:
        inputs: Tensor of floats, integers or booleans.
        dtype: The layer's compute dtype.

    Returns:
        `inputs` where they are floats, else the numbers cast to `dtype`.
    """
    inputs = ops.convert_to_tensor(inputs)
    own_dtype = keras.backend.standardize_dtype(inputs.dtype)
    if keras.backend.is_float_dtype(own_dtype):
        return inputs
    return ops.cast(inputs, dtype)
