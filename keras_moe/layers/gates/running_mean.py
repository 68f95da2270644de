from keras import ops
from keras.initializers import Constant

from keras_moe.layers.gates.gate import Gate
from keras_moe.types import Tensor


def add_running_mean(gate: Gate, name: str, size: int) -> None:
    """Adds a running mean to a gate, and how often it was updated.

    They are weights that are not trained: the gate's attribute `name`,
    `(size,)`, `1 / n` for `n` experts at first, and `num_updates`, an integer.

    Args:
        gate: The gate, which is being built.
        name: Name of the attribute and of the weight.
        size: Integer, numbers of the mean.
    """
    mean = gate.add_weight(
        name=name,
        shape=(size,),
        initializer=Constant(1 / gate.num_experts),
        trainable=False,
    )
    setattr(gate, name, mean)
    gate.num_updates = gate.add_weight(
        name="num_updates",
        shape=(),
        dtype="int",
        initializer="zeros",
        trainable=False,
    )


def share_kept(num_updates: Tensor, momentum: float) -> Tensor:
    """Returns how much of a running mean its next update keeps.

    The first updates make the mean of the batches: `u / (u + 1)` after `u` of
    them, up to `momentum`.

    Args:
        num_updates: Scalar integer tensor.
        momentum: Number in `[0, 1)`.
    """
    seen = ops.cast(num_updates, "float32")
    return ops.minimum(seen / (seen + 1), momentum)
