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


def is_eager_on_torch() -> bool:
    """Whether PyTorch runs this call as it stands, and nothing traces it.

    Only then may results be written to places in other tensors, and values
    decide what is computed.
    """
    if keras.backend.backend() != "torch":
        return False
    import torch

    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        # `torch.func`, such as `vmap`.
        or torch._C._functorch.peek_interpreter_stack() is not None
    )
