from itertools import pairwise
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_moe.compress.alignment import Perceptron
from keras_moe.compress.alignment import aligned
from tests.examples import examples

pytestmark = pytest.mark.once("torch")


def drawn(rng: np.random.Generator, widths: list[int]) -> Perceptron:
    return Perceptron(
        [rng.normal(size=shape) for shape in pairwise(widths)],
        [rng.normal(size=width) for width in widths[1:]],
    )


def outputs(expert: Perceptron, x: np.ndarray) -> np.ndarray:
    for kernel, bias in zip(expert.kernels, expert.biases, strict=True):
        x = np.tanh(x @ kernel + bias)
    return x


@examples(20)
@given(seed=st.integers(0, 1000))
def test_the_nearest_order_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    expert, reference = (drawn(rng, [3, 4, 2]) for _ in range(2))
    nearest = min(
        reference.distance(expert.permuted([np.array(order)]))
        for order in permutations(range(4))
    )
    found = reference.distance(aligned(expert, reference))
    assert found == pytest.approx(nearest)


@examples(20)
@given(
    seed=st.integers(0, 1000),
    hidden=st.lists(st.integers(1, 9), min_size=0, max_size=3),
)
def test_alignment_changes_no_output(seed: int, hidden: list[int]) -> None:
    rng = np.random.default_rng(seed)
    expert, reference = (drawn(rng, [3, *hidden, 2]) for _ in range(2))
    result = aligned(expert, reference)
    x = rng.normal(size=(5, 3))
    np.testing.assert_allclose(outputs(result, x), outputs(expert, x))
    before = reference.distance(expert)
    assert reference.distance(result) <= before + 1e-9


@pytest.mark.parametrize("hidden", [[8], [8, 6]])
def test_a_permuted_copy_is_recognised(hidden: list[int]) -> None:
    rng = np.random.default_rng(0)
    expert = drawn(rng, [5, *hidden, 3])
    noisy = Perceptron(
        [k + 0.01 * rng.normal(size=k.shape) for k in expert.kernels],
        expert.biases,
    )
    copy = noisy.permuted([rng.permutation(width) for width in hidden])
    assert expert.distance(aligned(copy, expert)) == pytest.approx(
        expert.distance(noisy)
    )
