from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._example_mean import example_mean
from keras_moe.types import Tensor


def router_z_loss(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    """The router z-loss: the mean of `logsumexp(logits)²`.

    It keeps logits small, where half precision still tells them apart.

    Args:
        logits: Float tensor `(..., n)`.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Scalar.

    Example:
        >>> float(router_z_loss(np.zeros((5, 1))))
        0.0

    References:
        Zoph et al., ST-MoE: Designing Stable and Transferable Sparse Expert
        Models, 2022, eq. 5.
    """
    logits = as_tensor("logits", logits, 1)
    return example_mean(ops.square(ops.logsumexp(logits, axis=-1)), mask)
