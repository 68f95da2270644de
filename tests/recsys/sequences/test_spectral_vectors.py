import numpy as np
import pytest

from recsys.sequences.spectral_vectors import spectral_vectors
from recsys.sequences.user_sequences import UserSequences


def drawn(num_users: int, num_items: int) -> UserSequences:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, num_users)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    items = rng.integers(1, num_items + 1, starts[-1]).astype(np.int32)
    return UserSequences(items, starts)


@pytest.mark.parametrize("dim", [3, 30])
def test_products_are_those_of_the_whole_decomposition(dim: int) -> None:
    sequences = drawn(40, 20)
    counts = np.zeros((40, 20))
    for user in range(40):
        np.add.at(counts[user], sequences[user] - 1, 1)
    normed = counts / np.sqrt(counts.sum(1))[:, None]
    normed /= np.sqrt(np.maximum(counts.sum(0), 1))
    _, values, right = np.linalg.svd(normed, full_matrices=False)
    expected = (right[:dim] * values[:dim, None]).T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = spectral_vectors(sequences, 20, dim)
    assert vectors.shape == (20, dim)
    np.testing.assert_allclose(
        vectors @ vectors.T, expected @ expected.T, atol=1e-5
    )
    again = spectral_vectors(sequences, 20, dim)
    np.testing.assert_array_equal(vectors, again)


def test_an_item_that_nobody_has_had_has_no_direction() -> None:
    sequences = UserSequences(np.array([1, 2, 0, 1]), np.array([0, 2, 4]))
    vectors = spectral_vectors(sequences, 3, 2)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 0])
