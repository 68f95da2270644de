import math

from keras import ops

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
) -> Tensor:
    """The load loss: `CV(Σ_x P(x chooses i))²`, a smooth count of examples.

    The probability is over a fresh draw of expert `i`'s noise, the `k`-th
    largest noisy logit being the bar: `P = Φ((logit_i - bar) / σ)`. Unlike a
    count, it has a gradient.

    Args:
        logits: Float tensor `(..., n)`, before the noise.
        noisy_logits: Float tensor `(..., n)`, what the experts were chosen
            by; `logits` again for a gate that draws no noise.
        k: Integer, the number of experts chosen per example.
        noise_std: Number or tensor that broadcasts to `(..., n)`, `σ > 0`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Scalar.

    Example:
        >>> logits = np.array([[2.0, 0.0], [0.0, 2.0]])
        >>> float(load_loss(logits, logits, k=1, noise_std=0.5))
        0.0

    References:
        Riquelme et al., Scaling Vision with Sparse Mixture of Experts,
        NeurIPS 2021, appendix A.
    """
    logits = ops.convert_to_tensor(logits)
    noisy_logits = ops.convert_to_tensor(noisy_logits)
    margin = (logits - kth_largest(noisy_logits, k)) / noise_std
    chosen = 0.5 * (1 + ops.erf(margin / math.sqrt(2)))
    return squared_variation(example_mean(chosen, mask, trailing=1))
