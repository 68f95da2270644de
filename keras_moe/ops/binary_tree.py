"""The leaves that walks down a binary tree reach.

A walk starts at the root with probability 1. A level of the tree is an array
of reach probabilities, in order from left to right; each step down replaces a
node by its two children. Nothing but products and differences: a step that is
certain leaves exact zeros behind.

    >>> left = np.array([1.0, 0.25, 0.5])  # Root, its left, its right child.
    >>> [float(p) for p in leaf_probabilities(left)]
    [0.25, 0.75, 0.0, 0.0]
"""

from keras import ops

from keras_moe.checks import as_tensor
from keras_moe.types import Tensor


def leaf_probabilities(left: Tensor) -> Tensor:
    """The probabilities of a tree's leaves, met depth first.

    Nodes are numbered as in a heap: node `q` has the children `2q + 1` (left)
    and `2q + 2` (right). The first `n - 1` nodes split and the next `n` are
    leaves, which is a tree of least depth for any `n`: its last level fills
    up from the left.

    Args:
        left: Tensor `(..., n - 1)`, the probability of going left at each
            node that splits, in heap order.

    Returns:
        Tensor `(..., n)`, the probability of each leaf, depth first from left
        to right. It sums to 1.

    Example:
        >>> left = np.array([0.75, 0.0])  # n = 3: only the left child splits.
        >>> [float(p) for p in leaf_probabilities(left)]
        [0.0, 0.75, 0.25]

    References:
        Ibrahim et al., COMET: Learning Cardinality Constrained Mixture of
        Experts with Trees and Local Search, KDD 2023, eq. 2 and appendix C.
    """
    left = as_tensor("left", left, 1)
    reach = ops.ones_like(left[..., :1])
    first = 0
    while first < left.shape[-1]:
        splits = left[..., first : 2 * first + 1]
        width = splits.shape[-1]
        parents, leaves = reach[..., :width], reach[..., width:]
        children = _interleave(parents * splits, parents * (1.0 - splits))
        reach = ops.concatenate([children, leaves], axis=-1)
        first = 2 * first + 1
    return reach


def code_probabilities(bits: Tensor) -> Tensor:
    """The probabilities of all binary numbers with `m` independent bits.

    Args:
        bits: Tensor `(..., m)`, the probability that each bit is 1, most
            significant bit first.

    Returns:
        Tensor `(..., 2**m)`. Entry `c` is the product over the bits of `c` of
        `bit` where it is 1 and `1 - bit` where it is 0. It sums to 1.

    Example:
        >>> [float(p) for p in code_probabilities(np.array([1.0, 0.25]))]
        [0.0, 0.0, 0.75, 0.25]

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        section 3.1.1.
    """
    bits = as_tensor("bits", bits, 1)
    reach = ops.ones_like(bits[..., :1])
    for index in range(bits.shape[-1]):
        bit = bits[..., index : index + 1]
        reach = _interleave(reach * (1.0 - bit), reach * bit)
    return reach


def _interleave(left: Tensor, right: Tensor) -> Tensor:
    """Puts each node's two children side by side: `(..., w)` to `(..., 2w)`."""
    pairs = ops.stack([left, right], axis=-1)  # (..., w, 2)
    # (..., 2w)
    return ops.reshape(pairs, (*ops.shape(left)[:-1], 2 * left.shape[-1]))
