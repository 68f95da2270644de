import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import top_k_indices
from keras_moe.ops import top_k_mask
from keras_moe.ops import top_k_softmax
from tests.examples import examples
from tests.gradients import gradient

LOGITS = np.log(np.array([1.0, 5.0, 2.0], "float32"))


def evaluate(x, k):
    return to_numpy(top_k_mask(np.asarray(x), k))


@pytest.mark.parametrize(
    ("row", "k", "kept"),
    [
        ([1.0, 3.0, 2.0], 1, [1]),
        ([1.0, 3.0, 2.0], 2, [1, 2]),
        ([1.0, 3.0, 2.0], 3, [0, 1, 2]),
        ([1.0, 2.0, 1.0, 1.0], 2, [0, 1]),  # A tie for the second place.
        ([0.0, -0.0, 0.0], 1, [0]),
        ([5.0, 7.0, 7.0, 5.0], 3, [0, 1, 2]),
        ([-np.inf, -np.inf, 0.0], 2, [0, 2]),
        ([np.inf, 0.0, np.inf], 1, [0]),
        ([0.0, -np.inf, -np.inf], 2, [0, 1]),
        ([-np.inf, np.finfo("float32").min, -np.inf], 2, [0, 1]),
        ([-0.0, 0.0, -1.0], 2, [0, 1]),
        ([-2.0, -1.0, -3.0, -1.0, -4.0, -5.0], 5, [0, 1, 2, 3, 4]),
    ],
)
def test_by_hand(row, k, kept):
    assert np.flatnonzero(evaluate(row, k)).tolist() == kept


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_of_half_precision(dtype):
    x = ops.cast(np.array([1.0, -2.0, 3.0, -0.5]), dtype)
    assert to_numpy(top_k_mask(x, 2)).tolist() == [True, False, True, False]


def test_masks_the_last_axis_of_any_rank(rng):
    x = rng.normal(size=(2, 3, 4, 5)).astype("float32")
    mask = evaluate(x, 2)
    assert mask.shape == x.shape
    assert mask.dtype == bool
    np.testing.assert_array_equal(
        mask.reshape(-1, 5), evaluate(x.reshape(-1, 5), 2)
    )


@pytest.mark.parametrize("k", [1, 2])
def test_a_batch_may_be_empty(k):
    assert evaluate(np.zeros((0, 3), "float32"), k).shape == (0, 3)


@examples(30)
@given(
    rows=st.lists(
        st.lists(st.integers(-2, 2), min_size=6, max_size=6),
        min_size=4,
        max_size=4,
    ),
    k=st.sampled_from([1, 3, 4, 5, 6]),
)
def test_keeps_exactly_k_and_gives_ties_to_the_lower_index(rows, k):
    mask = evaluate(np.array(rows, "float32"), k)
    for row, kept in zip(rows, mask, strict=True):
        order = sorted(range(6), key=lambda i: (-row[i], i))
        assert sorted(order[:k]) == np.flatnonzero(kept).tolist()


def test_softmax_keeps_the_probabilities_of_the_k_largest():
    np.testing.assert_allclose(
        to_numpy(top_k_softmax(LOGITS, k=2)), [0, 5 / 8, 2 / 8], rtol=1e-6
    )


def test_softmax_ties_go_to_the_lower_index():
    weights = to_numpy(top_k_softmax(np.zeros((2, 4), "float32"), k=1))
    np.testing.assert_array_equal(weights, [[0.25, 0, 0, 0]] * 2)


def test_softmax_has_the_gradient_of_all_entries_even_for_one():
    (grad,) = gradient(lambda logits: top_k_softmax(logits, k=1)[1], LOGITS)
    g = np.array([1, 5, 2]) / 8
    np.testing.assert_allclose(
        grad, g[1] * (np.array([0, 1, 0]) - g), rtol=1e-5
    )


def test_softmax_is_finite_for_large_logits():
    logits = np.array([1e30, -1e30, 0.0], "float32")
    np.testing.assert_array_equal(
        to_numpy(top_k_softmax(logits, k=2)), [1, 0, 0]
    )
    (grad,) = gradient(lambda x: top_k_softmax(x, k=2)[0], logits)
    assert np.isfinite(grad).all()


@examples(30)
@given(
    st.lists(
        st.lists(
            st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0]), min_size=5, max_size=5
        ),
        min_size=3,
        max_size=3,
    ),
    st.integers(1, 5),
)
def test_indices_are_those_of_the_mask(rows, k):
    x = np.array(rows, "float32")
    found = to_numpy(top_k_indices(x, k))
    assert found.dtype == np.int32
    marked = to_numpy(top_k_mask(x, k))
    expected = [np.flatnonzero(row).tolist() for row in marked]
    assert np.sort(found).tolist() == expected


def test_a_row_that_is_no_number_has_indices_within_it():
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]], "float32")
    found = to_numpy(top_k_indices(x, 2))
    assert found.shape == (2, 2)
    assert ((found >= 0) & (found < 3)).all()
    assert sorted(found[1].tolist()) == [1, 2]
