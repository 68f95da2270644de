import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import code_probabilities
from keras_moe.ops import leaf_probabilities
from tests.gradients import gradient


def walk(left, num_leaves, node=0, probability=1.0):
    """The leaves' probabilities below a node, depth first, by recursion."""
    if node >= num_leaves - 1:
        return [probability]
    return [
        *walk(left, num_leaves, 2 * node + 1, probability * left[node]),
        *walk(left, num_leaves, 2 * node + 2, probability * (1 - left[node])),
    ]


def spell(bits, number):
    """The probability of one binary number."""
    digits = np.binary_repr(number, width=len(bits))
    return np.prod(
        [b if d == "1" else 1 - b for b, d in zip(bits, digits, strict=True)]
    )


def test_five_leaves_by_hand():
    # Heap nodes 0..3 split; the leaves 7, 8, 4, 5, 6 are met depth first.
    a, b, c, d = 0.5, 0.25, 0.75, 0.125
    np.testing.assert_allclose(
        to_numpy(leaf_probabilities(np.array([a, b, c, d], "float32"))),
        [
            a * b * d,
            a * b * (1 - d),
            a * (1 - b),
            (1 - a) * c,
            (1 - a) * (1 - c),
        ],
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("num_leaves", [2, 3, 5, 6, 8, 9, 16, 33])
def test_leaves_match_a_recursive_walk(num_leaves, rng):
    left = rng.uniform(size=(2, 3, num_leaves - 1)).astype("float32")
    leaves = to_numpy(leaf_probabilities(left))
    assert leaves.shape == (2, 3, num_leaves)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(
            leaves[index], walk(left[index], num_leaves), rtol=1e-5
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("num_leaves", [2, 3, 5, 6, 8, 9, 16, 33])
def test_leaves_are_spread_over_at_most_two_levels(num_leaves):
    # Going left with probability 1/2 everywhere, a leaf at depth d has 2^-d.
    left = np.full(num_leaves - 1, 0.5, "float32")
    depths = -np.log2(to_numpy(leaf_probabilities(left)))
    depth = np.ceil(np.log2(num_leaves))
    assert np.sum(depths == depth) == 2 * num_leaves - 2**depth
    assert np.sum(depths == depth - 1) == 2**depth - num_leaves


def test_certain_splits_reach_exactly_one_leaf(rng):
    left = rng.integers(2, size=(20, 8)).astype("float32")
    leaves = to_numpy(leaf_probabilities(left))
    np.testing.assert_array_equal(np.sort(leaves)[:, :-1], 0.0)
    np.testing.assert_array_equal(leaves.max(-1), 1.0)


def test_leaf_gradients_are_exact_at_certain_splits():
    left = np.array([1.0, 0.0], "float32")

    def second_leaf(left):
        return leaf_probabilities(left)[1]  # left[0] * (1 - left[1])

    np.testing.assert_array_equal(gradient(second_leaf, left)[0], [1.0, -1.0])


@pytest.mark.parametrize("num_bits", [1, 2, 3, 5])
def test_codes_match_their_digits(num_bits, rng):
    bits = rng.uniform(size=(4, num_bits)).astype("float32")
    codes = to_numpy(code_probabilities(bits))
    expected = [[spell(row, c) for c in range(2**num_bits)] for row in bits]
    np.testing.assert_allclose(codes, expected, rtol=1e-5)


def test_the_first_bit_is_the_most_significant():
    codes = code_probabilities(np.array([1.0, 0.0, 0.0], "float32"))
    assert int(np.argmax(to_numpy(codes))) == 4
