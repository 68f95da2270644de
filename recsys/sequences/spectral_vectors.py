from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import svds

from recsys.sequences.user_sequences import UserSequences

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def spectral_vectors(
    sequences: UserSequences, num_items: int, dim: int
) -> npt.NDArray[np.float32]:
    """Returns first values of item vectors: items of the same users are near.

    With X the counts of users' items, and D_u and D_i the diagonal matrices
    of their sums over items and over users, D_u^(-1/2) X D_i^(-1/2) has the
    singular values S and right singular vectors V; the rows of V S, scaled to
    length 1, are the vectors. The decomposition starts from a fixed vector.

    Args:
        sequences: What users have had. Unknown items count nothing.
        num_items: How many items there are, numbered from 1.
        dim: Width of the vectors. Where the matrix has fewer singular values,
            the last numbers are 0.

    Returns:
        Float32 array `(num_items, dim)`; zeros for an item that nobody has
        had.

    Example:
    >>> pairs = UserSequences(np.array([1, 2, 3, 4]), np.array([0, 2, 4]))
    >>> vectors = spectral_vectors(pairs, 4, 2)
    >>> np.round(np.abs(vectors @ vectors.T), 3).tolist()[0]
    [1.0, 1.0, 0.0, 0.0]

    References:
        Sarwar et al. Application of Dimensionality Reduction in Recommender
        System. WebKDD 2000.
        He et al. LightGCN: Simplifying and Powering Graph Convolution Network
        for Recommendation. SIGIR 2020, equation 3, for the normalisation.
    """
    users = np.repeat(np.arange(len(sequences)), np.diff(sequences.starts))
    known = sequences.items > 0
    counts = sparse.csr_matrix(
        (
            np.ones(known.sum()),
            (users[known], sequences.items[known] - 1),
        ),
        shape=(len(sequences), num_items),
    )
    normed = _scaled(counts, 1) @ counts @ _scaled(counts, 0)
    values, right = _decomposed(normed, dim)
    largest = np.abs(right).argmax(axis=1)
    signs = np.sign(right[np.arange(len(right)), largest])
    vectors = np.zeros((num_items, dim))
    vectors[:, : len(right)] = (right * (signs * values)[:, None]).T
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _decomposed(
    matrix: "csr_array", rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """The largest singular values, and their right singular vectors."""
    smaller = min(matrix.shape)
    if smaller <= rank:
        _, values, right = np.linalg.svd(matrix.toarray(), full_matrices=False)
        return values, right
    start = np.random.default_rng(0).normal(size=smaller)
    _, values, right = svds(matrix, k=rank, v0=start, solver="arpack")
    return values[::-1], right[::-1]


def _scaled(counts: "csr_array", axis: int) -> "csr_array":
    """The diagonal matrix of the sums over an axis, to the power of -1/2."""
    sums = np.asarray(counts.sum(axis)).ravel()
    return sparse.diags(1 / np.sqrt(np.maximum(sums, 1)))
