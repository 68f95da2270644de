from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.checks import check_positive
from keras_moe.types import Tensor


def smooth_step(x: Tensor, gamma: float = 1.0) -> Tensor:
    """A step from 0 to 1 that is smooth, and exact outside its width.

    `h(t)` is 0 for `t <= -γ/2`, 1 for `t >= γ/2` and
    `-2t³/γ³ + 3t/(2γ) + 1/2` between. Unlike a sigmoid it reaches 0 and 1,
    and its gradient is exactly 0 where it has.

    Args:
        x: Float tensor of any shape.
        gamma: Width `γ > 0` of the fractional region, defaults to 1.

    Returns:
        Tensor of the shape of `x`, in `[0, 1]`.

    Raises:
        TypeError: If `gamma` is not a number.
        ValueError: If `gamma` is not above 0.

    Example:
        >>> x = np.array([-2.0, -0.5, 0.0, 0.5, 1.0])
        >>> [round(float(h), 4) for h in smooth_step(x, gamma=2.0)]
        [0.0, 0.1562, 0.5, 0.8438, 1.0]

    References:
        Hazimeh et al., The Tree Ensemble Layer: Differentiability meets
        Conditional Computation, ICML 2020, section 3.
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        section 3.1.3.
    """
    gamma = check_positive("gamma", gamma)
    x = as_tensor("x", x)
    half = gamma / 2
    # With u = t/γ + 1/2 the cubic is u²(3 - 2u), which rounding cannot push
    # out of [0, 1].
    u = ops.where(
        x <= -half, 0.0, ops.where(x >= half, 1.0, (x + half) / gamma)
    )
    return u * u * (3.0 - 2.0 * u)
