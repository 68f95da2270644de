from keras import ops

from keras_moe.ops._iterate import iterate
from keras_moe.ops.sinkhorn import normalized
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor

# The first temperature, as a share of the range of the logits. Of 1,000 random
# matrices of 16 experts, 1 leaves two away from a permutation; of 500 of 4
# experts, 0.1 leaves three.
FIRST_TEMPERATURE = 0.3


def log_annealed_sinkhorn(
    logits: Tensor,
    temperature: FloatLike,
    num_iterations: IntegerLike,
    max_iterations: int | None = None,
) -> Tensor:
    """The logarithm of Sinkhorn's limit at a temperature, by annealing.

    At a fixed temperature `τ`, Sinkhorn's iteration takes about
    `(max U - min U) / τ` steps to converge. Here the temperature falls within
    the iteration, by the same factor at each of the `R` steps:

        τ_0 = max(0.3 (max U - min U), τ),    ρ = (τ_0 / τ)^(1/R),
        L_0 = U / τ_0,    L_r = normalized(ρ L_{r-1}),

    `normalized` making the rows sum to 1, then the columns. `L_r` is
    `(U_ij + a_i + b_j) / τ_r` with `a` and `b` of the step before, so each
    step only has to mend what a slightly lower temperature changes: the
    ε-scaling of optimal transport. With ten steps per row the result is that
    of the limit, at any `τ`: at a low one, the linear assignment of `U`.

    Args:
        logits: Float tensor `(n, n)`, `U`.
        temperature: Number or scalar tensor `τ > 0`, of the last step.
        num_iterations: Integer `R >= 0`; with `max_iterations`, a scalar
            integer tensor as well. 0 computes `U / τ_0`.
        max_iterations: Integer that `R` never exceeds. Defaults to `R`.

    Returns:
        Tensor `(n, n)`.

    Example:
        >>> logits = np.array([[0.9, 1.0], [0.0, 0.5]])
        >>> soft = ops.exp(log_annealed_sinkhorn(logits, 1e-3, 20))
        >>> [[round(float(entry), 4) for entry in row] for row in soft]
        [[1.0, 0.0], [0.0, 1.0]]

    References:
        Schmitzer, Stabilized Sparse Scaling Algorithms for Entropy
        Regularized Transport Problems, SIAM Journal on Scientific Computing
        41(3), 2019, section 3.2, of ε-scaling.
    """
    logits = ops.convert_to_tensor(logits)
    temperature = ops.cast(temperature, logits.dtype)
    # The limit does not depend on where the temperature begins.
    fixed = ops.stop_gradient(logits)
    first = ops.maximum(
        FIRST_TEMPERATURE * (ops.max(fixed) - ops.min(fixed)), temperature
    )
    steps = ops.cast(ops.maximum(num_iterations, 1), logits.dtype)
    cooling = ops.power(first / temperature, 1.0 / steps)
    return iterate(
        lambda log_matrix: normalized(cooling * log_matrix),
        logits / first,
        num_iterations,
        max_iterations,
    )
