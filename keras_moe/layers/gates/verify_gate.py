import numpy as np
from keras import ops

from keras_moe.layers.gates.gate import Gate
from keras_moe.types import TensorLike

# By how much rounding may move the sum of weights.
TOLERANCE = 1e-4


def verify_gate(gate: Gate, inputs: TensorLike) -> None:
    """Finds out whether a gate is what its attributes say.

    Mixtures, callbacks and metrics rely on what a gate declares, and cannot
    check every batch. This calls the gate on some inputs, in inference and in
    training, and compares. It is meant for the tests of a gate of one's own;
    the more inputs of the kind that the gate will meet, the better.

    Checked are `num_experts`, `static` and `feature_rank` (the shape of the
    weights, and what they depend on), `always_sparse`, `k`, `is_bounded` and
    `max_pairs` (how many weights are not zero), `on_simplex`, and what goes for
    every gate: weights are finite and float32, padding gets none, and a row
    with NaN has NaN among its weights, and no other row has.

    Args:
        gate: The gate, built or not.
        inputs: Array `(N, p)` of at least two examples, or ids `(N,)`: what the
            gate is called with.

    Raises:
        ValueError: If the gate is not what it says. The message names the
            attribute.

    Example:
        >>> class NoisyGate(SoftmaxGate):
        ...     always_sparse = True
        >>> verify_gate(NoisyGate(num_experts=4), np.ones((3, 5)))
        Traceback (most recent call last):
        ...
        ValueError: `always_sparse` must be False for a gate without `k`. ...
    """
    examples = ops.convert_to_numpy(inputs)
    if gate.always_sparse and gate.k is None:
        raise ValueError(
            "`always_sparse` must be False for a gate without `k`. "
            f"Received: {_describe(gate)} with always_sparse=True, k=None"
        )
    for training in (False, True):
        weights = _weigh(gate, examples, training)
        _check_shape(gate, weights, examples.shape)
        _check_sparsity(gate, weights, len(examples), training)
        _check_simplex(gate, weights)
        if gate.static:
            continue
        _check_mask(gate, examples, training)
        if np.issubdtype(examples.dtype, np.floating):
            _check_nan(gate, examples, training)
    if gate.static:
        _check_static(gate, examples)


def _weigh(
    gate: Gate,
    inputs: np.ndarray,
    training: bool,
    mask: np.ndarray | None = None,
) -> np.ndarray:
    weights = gate(inputs, training=training, mask=mask)
    return np.asarray(ops.convert_to_numpy(weights))


def _describe(gate: Gate) -> str:
    return f"the {type(gate).__name__} {gate.name!r}"


def _check_shape(
    gate: Gate, weights: np.ndarray, shape: tuple[int, ...]
) -> None:
    leading = shape[: len(shape) - gate.feature_rank]
    expected = (*(() if gate.static else leading), gate.num_experts)
    if weights.shape != expected or weights.dtype != "float32":
        raise ValueError(
            "`num_experts`, `static` and `feature_rank` make float32 weights "
            f"of shape {expected}. Received: {weights.dtype} of shape "
            f"{weights.shape} from {_describe(gate)}"
        )
    if not np.isfinite(weights).all():
        raise ValueError(
            "The weights must be finite. "
            f"Received: {weights[~np.isfinite(weights)]} from {_describe(gate)}"
        )


def _check_sparsity(
    gate: Gate, weights: np.ndarray, num_rows: int, training: bool
) -> None:
    counts = np.count_nonzero(weights, axis=-1)
    if gate.always_sparse and counts.max() > gate.k:
        raise ValueError(
            f"`always_sparse` promises at most k={gate.k} nonzero weights "
            f"for each example. Received: {counts.max()} from "
            f"{_describe(gate)} with training={training}"
        )
    pairs = counts.sum() * (num_rows if gate.static else 1)
    if gate.is_bounded(training) and pairs > gate.max_pairs(num_rows):
        raise ValueError(
            f"`is_bounded` promises at most {gate.max_pairs(num_rows)} "
            f"nonzero weights for {num_rows} examples, by `max_pairs`. "
            f"Received: {pairs} from {_describe(gate)} with training={training}"
        )


def _check_simplex(gate: Gate, weights: np.ndarray) -> None:
    sums = weights.sum(axis=-1)
    if gate.on_simplex and (
        weights.min() < 0 or abs(sums - 1).max() > TOLERANCE
    ):
        raise ValueError(
            "`on_simplex` promises nonnegative weights that sum to 1. "
            f"Received: weights from {weights.min()} that sum to "
            f"{sums.min()} to {sums.max()} from {_describe(gate)}"
        )


def _check_mask(gate: Gate, inputs: np.ndarray, training: bool) -> None:
    mask = np.arange(len(inputs)) > 0
    weights = _weigh(gate, inputs, training, mask)
    if weights[0].any():
        raise ValueError(
            "Padding must get no weight. "
            f"Received: {weights[0]} from {_describe(gate)}"
        )


def _check_nan(gate: Gate, inputs: np.ndarray, training: bool) -> None:
    inputs = inputs.copy()
    inputs[0] = np.nan
    is_nan = np.isnan(_weigh(gate, inputs, training)).any(axis=-1)
    if not is_nan[0] or is_nan[1:].any():
        raise ValueError(
            "An example of NaN must have NaN among its weights, and no other "
            "example may. Received: NaN in the weights of the rows "
            f"{np.flatnonzero(is_nan).tolist()} for NaN in row 0 from "
            f"{_describe(gate)} with training={training}"
        )


def _check_static(gate: Gate, inputs: np.ndarray) -> None:
    zeros = np.zeros_like(inputs)
    if (_weigh(gate, inputs, False) != _weigh(gate, zeros, False)).any():
        raise ValueError(
            "`static` promises weights that do not depend on the inputs. "
            f"Received: different weights from {_describe(gate)}"
        )
