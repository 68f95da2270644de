from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import masked_softmax
from keras_moe.ops import top_k_mask
from keras_moe.ops._softmax_of_largest import softmax_of_largest
from tests.compiled import compiled
from tests.examples import examples
from tests.gradients import gradient

EXPERTS = 5


def masked(logits: Any, k: int) -> Any:
    return masked_softmax(logits, top_k_mask(logits, k))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_it_is_the_masked_softmax(k: int) -> None:
    actual_of = compiled(lambda logits: softmax_of_largest(logits, k))
    expected_of = compiled(lambda logits: masked(logits, k))
    inf, nan = float("inf"), float("nan")

    @examples(50)
    @given(
        st.lists(
            st.lists(
                # Ties are as frequent as rows without any, the rest is rare.
                st.integers(-2, 2)
                | st.integers(-100, 100)
                | st.sampled_from([inf, -inf, nan, -0.0]),
                min_size=EXPERTS,
                max_size=EXPERTS,
            ),
            min_size=4,
            max_size=4,
        )
    )
    def check(rows: list[list[float]]) -> None:
        logits = np.array(rows, "float32")
        # Below the smallest normal number, either may have a zero.
        np.testing.assert_allclose(
            actual_of(logits), expected_of(logits), rtol=1e-6, atol=1e-37
        )

    check()


@pytest.mark.parametrize("special", [None, "tie", "nan"])
def test_its_gradient_is_that_of_the_masked_softmax(
    special: str | None, rng: np.random.Generator
) -> None:
    logits = rng.normal(size=(3, 4, EXPERTS)).astype("float32")
    upstream_grad = rng.normal(size=logits.shape).astype("float32")
    if special == "tie":
        logits[1, 1] = 0.0
    elif special == "nan":
        logits[1, 1, 2] = float("nan")

    def weighted(function: Any) -> Any:
        def value(logits: Any) -> Any:
            weights = function(logits, 2)
            weights = keras.ops.where(
                keras.ops.isnan(weights), keras.ops.zeros_like(weights), weights
            )
            return keras.ops.sum(keras.ops.multiply(weights, upstream_grad))

        return value

    (actual,) = gradient(weighted(softmax_of_largest), logits)
    (expected,) = gradient(weighted(masked), logits)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-6)
    assert np.isfinite(actual).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(EXPERTS,), (0, EXPERTS), (2, 0, EXPERTS)])
def test_it_takes_any_rank_and_no_rows(shape: tuple[int, ...]) -> None:
    logits = np.arange(np.prod(shape)).reshape(shape).astype("float32")
    weights = to_numpy(softmax_of_largest(logits, 2))
    assert weights.shape == shape
    np.testing.assert_allclose(weights, to_numpy(masked(logits, 2)), rtol=1e-6)
