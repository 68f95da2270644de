from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.ops._example_mean import example_mean
from keras_moe.types import Tensor


def load_balance_loss(
    probabilities: Tensor, chosen: Tensor, mask: Tensor | None = None
) -> Tensor:
    """The load balance loss of the Switch Transformer: `n Σ_i f_i P_i`.

    `f_i` is the share of examples that choose expert `i`, `P_i` the mean of
    its probability. With one expert per example it is 1 where both are equal
    for all experts, and up to `n` where one expert gets everything. Where `k`
    experts are marked for each example, the shares add up to `k`, and the loss
    is `k` times as large: divide its weight by `k` to compare.

    Args:
        probabilities: Float tensor `(..., n)`, over all experts.
        chosen: Boolean tensor `(..., n)`, all experts that an example chooses,
            or only the first, as in the paper. No gradient passes it.
        mask: Boolean tensor `(...)`, false for padding. Defaults to `None`.

    Returns:
        Scalar.

    Example:
        >>> one_hot = np.eye(4, dtype="float32")
        >>> float(load_balance_loss(one_hot, one_hot > 0))
        1.0
        >>> float(load_balance_loss(one_hot[[0, 0]], one_hot[[0, 0]] > 0))
        4.0

    References:
        Fedus et al., Switch Transformers: Scaling to Trillion Parameter
        Models with Simple and Efficient Sparsity, JMLR 2022, eq. 4 to 6.
    """
    probabilities = as_tensor("probabilities", probabilities, 1)
    chosen = as_tensor("chosen", chosen, 1)
    shares = example_mean(
        ops.cast(chosen, probabilities.dtype), mask, trailing=1
    )
    means = example_mean(probabilities, mask, trailing=1)
    return probabilities.shape[-1] * ops.sum(shares * means)
