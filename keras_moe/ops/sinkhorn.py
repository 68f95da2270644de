from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_integer
from keras_moe.ops._iterate import iterate
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


def sinkhorn(
    logits: Tensor,
    temperature: FloatLike,
    num_iterations: IntegerLike,
    max_iterations: int | None = None,
) -> Tensor:
    """The Sinkhorn operator `S^R(U/τ)`: a soft permutation matrix.

    Starts from `exp(U/τ)` and divides, `R` times, each row by its sum, then
    each column by its own. It does so in the log domain, since `exp(U/τ)`
    overflows at the temperatures in use. The columns sum to 1; the rows do in
    the limit, which small temperatures approach slowly.

    Args:
        logits: Float tensor `(n, n)`, `U`. The result has its dtype: float64
            keeps the order of near ties at temperatures below 1e-5.
        temperature: Number or scalar tensor `τ > 0`.
        num_iterations: Integer `R >= 0`; with `max_iterations`, a scalar
            integer tensor as well.
        max_iterations: Integer that `R` never exceeds: a compiled function
            that takes `R` as a tensor has to know. Defaults to `R`.

    Returns:
        Tensor `(n, n)`.

    Raises:
        TypeError: If an argument that must be an integer is not.
        ValueError: If it is below 0.

    Example:
        >>> logits = np.array([[0.1, 0.0], [0.0, 0.1]])
        >>> soft = sinkhorn(logits, temperature=0.1, num_iterations=20)
        >>> [[round(float(entry), 4) for entry in row] for row in soft]
        [[0.7311, 0.2689], [0.2689, 0.7311]]

    References:
        Mena et al., Learning Latent Permutations with Gumbel-Sinkhorn
        Networks, ICLR 2018, eq. 1 and 2.
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, eq. 8.
    """
    return ops.exp(
        log_sinkhorn(logits, temperature, num_iterations, max_iterations)
    )


def log_sinkhorn(
    logits: Tensor,
    temperature: FloatLike,
    num_iterations: IntegerLike,
    max_iterations: int | None = None,
) -> Tensor:
    """The logarithm of `sinkhorn`, whose rows never underflow to zero.

    Args:
        logits: As in `sinkhorn`.
        temperature: As in `sinkhorn`.
        num_iterations: As in `sinkhorn`.
        max_iterations: As in `sinkhorn`.

    Returns:
        Tensor `(n, n)`.

    Example:
        >>> logits = np.array([[0.0, 1.0], [0.0, 1.0]])
        >>> rows_and_columns = log_sinkhorn(logits, 1.0, 1)
        >>> [round(float(entry), 4) for entry in rows_and_columns[0]]
        [-0.6931, -0.6931]
    """
    if max_iterations is None:
        num_iterations = check_integer("num_iterations", num_iterations, 0)
    else:
        check_integer("max_iterations", max_iterations, 0)
    logits = as_tensor("logits", logits, 2)
    scaled = logits / ops.cast(
        as_tensor("temperature", temperature), logits.dtype
    )
    return iterate(normalized, scaled, num_iterations, max_iterations)


def normalized(log_matrix: Tensor) -> Tensor:
    """Makes the rows sum to 1, then the columns, in the log domain."""
    for axis in (-1, -2):
        log_matrix = log_matrix - ops.logsumexp(
            log_matrix, axis=axis, keepdims=True
        )
    return log_matrix
