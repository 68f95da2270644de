"""Facts about the backend: what traces a call, and for which device."""

import keras

from keras_moe.private_names import export_format
from keras_moe.private_names import is_graph_for_xla
from keras_moe.private_names import is_transformed_on_torch
from keras_moe.types import Tensor


def is_traced_for_xla() -> bool:
    """Returns whether TensorFlow traces this call for its XLA compiler."""
    if keras.backend.backend() != "tensorflow":
        return False
    return is_graph_for_xla()


def has_dynamic_shapes() -> bool:
    """Returns whether shapes may depend on values in this call."""
    return keras.backend.backend() != "jax" and not is_traced_for_xla()


def is_traced_by_jax(tensor: Tensor) -> bool:
    """Returns whether JAX traces the call that a tensor is part of."""
    if keras.backend.backend() != "jax":
        return False
    import jax

    return isinstance(tensor, jax.core.Tracer)


def is_eager_on_torch() -> bool:
    """Returns whether PyTorch runs this call eagerly, without any tracing.

    Only then may results be written to places in other tensors, and values
    decide what is computed.
    """
    if keras.backend.backend() != "torch":
        return False
    import torch

    return not (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or is_transformed_on_torch()
    )


def is_traced_for_export(rows: Tensor) -> bool:
    """Returns whether this call is exported, for any number of rows.

    Such a file cannot hold what sparse execution computes: ONNX, LiteRT and the
    like have not all operations of TensorFlow's graphs, PyTorch writes down the
    numbers that a group had in the traced batch, and JAX has no shapes then
    that it could plan for.

    Args:
        rows: Tensor `(N, ...)`.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        # A SavedModel has all that a graph has.
        return not tf.executing_eagerly() and export_format() not in (
            None,
            "tf_saved_model",
        )
    if backend == "torch":
        import torch

        # PyTorch 2.6 cannot say whether it compiles for a file.
        is_exporting = getattr(torch.compiler, "is_exporting", bool)
        return bool(torch.jit.is_tracing() or is_exporting())
    return not isinstance(rows.shape[0], int)  # A symbol.


def jax_platform() -> str:
    """Returns the platform that JAX computes on, such as `"cpu"` or `"gpu"`."""
    import jax

    device = jax.config.jax_default_device
    # A device, its platform's name, or the first one there is.
    return getattr(device, "platform", device) or jax.default_backend()
