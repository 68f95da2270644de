import math

from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_choice
from keras_moe.checks import check_integer
from keras_moe.ops._example_mean import example_mean
from keras_moe.ops.top_k import kth_largest
from keras_moe.regularizers.variation import squared_variation
from keras_moe.types import FloatLike
from keras_moe.types import Tensor


def load_loss(
    logits: Tensor,
    noisy_logits: Tensor,
    k: int,
    noise_std: FloatLike,
    mask: Tensor | None = None,
    bar: str = "all",
) -> Tensor:
    """The load loss: `CV(Σ_x P(x chooses i))²`, a smooth count of examples.

    The probability is over a fresh draw of expert `i`'s noise, with a bar that
    its noisy logit has to pass: `P = Φ((logit_i - bar_i) / σ)`. Unlike a
    count, it has a gradient.

    Args:
        logits: Float tensor `(..., n)`, before the noise.
        noisy_logits: Float tensor `(..., n)`, what the experts were chosen
            by; `logits` again for a gate that draws no noise.
        k: Integer, the number of experts chosen per example.
        noise_std: Number or tensor that broadcasts to `(..., n)`, `σ > 0`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.
        bar: `"all"` (default): the `k`-th largest noisy logit of all experts,
            as in V-MoE. `"others"`: that of all experts but `i`, as Shazeer et
            al. have it, which is exactly what a fresh draw has to pass. With
            `k = n` there is none, and every expert is chosen for certain.

    Returns:
        Scalar.

    Raises:
        ValueError: If `bar` is another string.

    Example:
        >>> logits = np.array([[2.0, 0.0], [0.0, 2.0]])
        >>> float(load_loss(logits, logits, k=1, noise_std=0.5))
        0.0

    References:
        Riquelme et al., Scaling Vision with Sparse Mixture of Experts,
        NeurIPS 2021, appendix A (`"all"`).
        Shazeer et al., Outrageously Large Neural Networks: The
        Sparsely-Gated Mixture-of-Experts Layer, ICLR 2017, appendix A, eq. 8
        to 11 (`"others"`).
    """
    logits = as_tensor("logits", logits, 1)
    noisy_logits = as_tensor("noisy_logits", noisy_logits, 1)
    check_integer("k", k, 1, logits.shape[-1])
    check_choice("bar", bar, ("all", "others"))
    if bar == "all":
        bars = kth_largest(noisy_logits, k)
    elif k < logits.shape[-1]:
        bars = _largest_of_others(noisy_logits, k)
    else:
        return ops.zeros((), logits.dtype)
    margin = (logits - bars) / ops.cast(
        as_tensor("noise_std", noise_std), logits.dtype
    )
    chosen = 0.5 * (1 + ops.erf(margin / math.sqrt(2)))
    return squared_variation(example_mean(chosen, mask, trailing=1))


def _largest_of_others(noisy_logits: Tensor, k: int) -> Tensor:
    """For each entry the `k`-th largest of the others, `(..., n)`."""
    # Without one of the k largest, the next one takes the last place.
    following = kth_largest(noisy_logits, k + 1)  # (..., 1)
    return ops.where(
        noisy_logits > following, following, kth_largest(noisy_logits, k)
    )
