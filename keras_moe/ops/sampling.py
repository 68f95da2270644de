"""Draws of experts, and weights that correct for the draw."""

import math
from collections.abc import Sequence

import keras
import numpy as np
from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_integer
from keras_moe.ops.masked_softmax import masked_softmax
from keras_moe.ops.top_k import top_k_mask
from keras_moe.types import IntegerLike
from keras_moe.types import SeedLike
from keras_moe.types import Tensor

# The smallest uniform number: the logarithm of 0 is not finite.
SMALLEST = float(np.finfo("float32").tiny)


def gumbel_noise(shape: Sequence[IntegerLike], seed: SeedLike = None) -> Tensor:
    """Draws from the standard Gumbel distribution.

    Args:
        shape: Tuple of integers.
        seed: Integer, `keras.random.SeedGenerator` or `None`.

    Returns:
        Float32 tensor of the given shape.

    Example:
        >>> tuple(gumbel_noise((2, 3), seed=0).shape)
        (2, 3)
    """
    uniform = keras.random.uniform(
        shape, minval=SMALLEST, maxval=1.0, dtype="float32", seed=seed
    )
    return -ops.log(-ops.log(uniform))


def draw_without_replacement(
    logits: Tensor, k: int, seed: SeedLike = None
) -> Tensor:
    """Draws `k` distinct entries per row, one after the other.

    Each draw is from the softmax over the entries that are left. The `k`
    largest sums of logits and Gumbel noise have this law.

    Args:
        logits: Float tensor `(..., n)`.
        k: Integer in `[1, n]`.
        seed: Integer, `keras.random.SeedGenerator` or `None`.

    Returns:
        Float32 tensor `(..., n)`, 1 for the `k` drawn, 0 for the others.

    Example:
        >>> counts = draw_without_replacement(np.zeros(5), k=5, seed=0)
        >>> [int(count) for count in counts]
        [1, 1, 1, 1, 1]

    References:
        Kool et al., Stochastic Beams and Where to Find Them: The
        Gumbel-Top-k Trick for Sampling Sequences Without Replacement,
        ICML 2019, section 2.3.
    """
    logits = ops.cast(as_tensor("logits", logits, 1), "float32")
    noise = gumbel_noise(ops.shape(logits), seed)
    return ops.cast(top_k_mask(logits + noise, k), "float32")


def draw_with_replacement(
    logits: Tensor, k: int, seed: SeedLike = None
) -> Tensor:
    """Draws `k` times from each row's softmax.

    Args:
        logits: Float tensor `(..., n)`.
        k: Integer, at least 1.
        seed: Integer, `keras.random.SeedGenerator` or `None`.

    Returns:
        Float32 tensor `(..., n)`, how often each entry was drawn.

    Example:
        >>> counts = draw_with_replacement(np.array([0.0, 99.0]), k=3, seed=0)
        >>> [int(count) for count in counts]
        [0, 3]

    References:
        Jang et al., Categorical Reparameterization with Gumbel-Softmax,
        ICLR 2017, eq. 1.
    """
    logits = ops.cast(as_tensor("logits", logits, 1), "float32")
    check_integer("k", k, 1)
    *rows, n = ops.shape(logits)
    noise = gumbel_noise((*rows, k, n), seed)
    # (..., 1, n) + (..., k, n)
    draws = ops.argmax(logits[..., None, :] + noise, axis=-1)  # (..., k)
    return ops.sum(ops.one_hot(draws, n, dtype="float32"), axis=-2)


def choose_one(mask: Tensor, seed: SeedLike = None) -> Tensor:
    """Chooses one of the entries that a mask marks, all equally likely.

    Args:
        mask: Boolean tensor `(..., n)`, at least one true entry per row.
        seed: Integer, `keras.random.SeedGenerator` or `None`.

    Returns:
        Boolean tensor `(..., n)` with one true entry per row.

    Example:
        >>> chosen = choose_one(np.array([False, True, False]), seed=0)
        >>> [bool(entry) for entry in chosen]
        [False, True, False]
    """
    mask = as_tensor("mask", mask, 1)
    uniform = keras.random.uniform(ops.shape(mask), dtype="float32", seed=seed)
    return top_k_mask(ops.where(mask, uniform, -1.0), 1)


def adjusted_softmax(
    logits: Tensor, counts: Tensor, corrected: Tensor, k: int
) -> Tensor:
    """A softmax over the drawn entries, adjusted for how they were drawn.

    With `g = softmax(logits)` and the counts `r`, the softmax is over

        log(g_i) + log(r_i)                       where `corrected` is false,
        log(g_i) + log(r_i) - log((k - 1) g_i)    where it is true,

    for the entries with `r_i > 0`. So an entry weighs `r_i g_i` or, free of
    how likely it was to be drawn, `r_i / (k - 1)`.

    Args:
        logits: Float tensor `(..., n)`.
        counts: Float tensor `(..., n)`, how often each entry was drawn.
        corrected: Boolean tensor `(..., n)`.
        k: Integer, at least 2: the number of draws.

    Returns:
        Tensor `(..., n)`, exactly 0 where nothing was drawn.

    Example:
        >>> logits = np.log(np.array([0.5, 0.25, 0.25], "float32"))
        >>> counts = np.array([1.0, 0.0, 1.0], "float32")
        >>> corrected = np.array([False, True, True])
        >>> weights = adjusted_softmax(logits, counts, corrected, k=2)
        >>> [round(float(weight), 4) for weight in weights]
        [0.3333, 0.0, 0.6667]

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, eq. 3.
    """
    logits = as_tensor("logits", logits, 1)
    counts = as_tensor("counts", counts, 1)
    corrected = as_tensor("corrected", corrected, 1)
    check_integer("k", k, 2)
    # Not the logarithm of a softmax: that is -inf where the softmax is 0.
    log_g = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
    correction = ops.where(corrected, math.log(k - 1) + log_g, 0.0)
    adjusted = log_g + ops.log(ops.maximum(counts, 1.0)) - correction
    return masked_softmax(adjusted, ops.greater(counts, 0))
