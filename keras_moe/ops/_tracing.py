"""What the backend knows while it traces."""

import keras

from keras_moe.types import Tensor


def is_traced_for_xla() -> bool:
    """Whether TensorFlow traces this call for its XLA compiler."""
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    return bool(
        control_flow_util.GraphOrParentsInXlaContext(
            tf.compat.v1.get_default_graph()
        )
    )


def has_dynamic_shapes() -> bool:
    """Whether shapes may depend on values in this call."""
    return keras.backend.backend() != "jax" and not is_traced_for_xla()


def is_traced_by_jax(tensor: Tensor) -> bool:
    """Whether JAX traces the call that a tensor is part of."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(tensor, jax.core.Tracer)
