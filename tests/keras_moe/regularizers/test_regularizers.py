import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe import regularizers
from tests.gradients import gradient

pytestmark = pytest.mark.traced_once("tensorflow")

MASK = np.array([[True, True, False], [False, True, True]])


def softmax(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def squared_variation(values):
    return values.var() / values.mean() ** 2


def chance(logits, noisy, k, std):
    """P(logit + noise > the k-th largest noisy logit), entry by entry."""
    chances = np.zeros_like(logits)
    for row, x, x_noisy in zip(chances, logits, noisy, strict=True):
        bar = sorted(x_noisy)[-k]
        for i, logit in enumerate(x):
            row[i] = 0.5 * math.erfc((bar - logit) / std / math.sqrt(2))
    return chances


def test_importance_by_hand():
    # The sums are 3 and 1: variance 1, mean 2.
    weights = np.array([[1, 0], [1, 0], [1, 0], [0, 1]], "float32")
    assert float(regularizers.importance_loss(weights)) == pytest.approx(1 / 4)


def test_load_balance_by_hand():
    # Shares (1, 0), probabilities (0.75, 0.25): 2 * 0.75.
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4]], "float32")
    chosen = np.array([[True, False], [True, False]])
    loss = regularizers.load_balance_loss(probabilities, chosen)
    assert float(loss) == pytest.approx(1.5)


def test_router_z_by_hand():
    logits = np.log(np.array([[1.0, 2.0], [0.5, 0.5]], "float32"))
    expected = np.log(3) ** 2 / 2
    loss = regularizers.router_z_loss(logits)
    assert float(loss) == pytest.approx(expected)


def test_trimmed_lasso_by_hand():
    weights = np.array([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]], "float32")
    loss = regularizers.trimmed_lasso(weights, k=1)
    assert float(loss) == pytest.approx(0.25)
    assert float(regularizers.trimmed_lasso(weights, k=3)) == 0.0


@pytest.mark.parametrize("k", [1, 2, 4])
def test_load_matches_a_reference(k, rng):
    logits = rng.normal(size=(20, 4)).astype("float32")
    noisy = logits + rng.normal(0, 0.3, size=(20, 4)).astype("float32")
    expected = squared_variation(chance(logits, noisy, k, 0.3).sum(axis=0))
    loss = regularizers.load_loss(logits, noisy, k, 0.3)
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def chance_beside_others(logits, noisy, k, std):
    """P(logit + noise > the k-th largest noisy logit of the others)."""
    chances = np.ones_like(logits)
    for row, x, x_noisy in zip(chances, logits, noisy, strict=True):
        for i, logit in enumerate(x):
            others = sorted(np.delete(x_noisy, i))
            if k <= len(others):
                margin = (logit - others[-k]) / std[i]
                row[i] = 0.5 * math.erfc(-margin / math.sqrt(2))
    return chances


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_load_beside_others_matches_a_reference(k, rng):
    logits = rng.normal(size=(20, 4)).astype("float32")
    std = np.array([0.2, 0.5, 1.0, 2.0], "float32")
    noisy = logits + (std * rng.normal(size=(20, 4))).astype("float32")
    noisy[0] = [1.0, 2.0, 1.0, 1.0]  # Ties at the bar.
    chances = chance_beside_others(logits, noisy, k, std)
    expected = squared_variation(chances.sum(axis=0))
    loss = regularizers.load_loss(logits, noisy, k, std, bar="others")
    assert float(loss) == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_load_beside_others_by_hand():
    # The first passes the second's 1, the second the first's 3.
    logits = np.array([[3.0, 1.0]], "float32")
    first, second = (0.5 * math.erfc(-x / math.sqrt(2)) for x in (2.0, -2.0))
    expected = squared_variation(np.array([first, second]))
    loss = regularizers.load_loss(logits, logits, 1, 1.0, bar="others")
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_load_refuses_another_bar():
    with pytest.raises(ValueError, match=r"`bar` must be one of .*Received: b"):
        regularizers.load_loss(
            np.ones((2, 3)), np.ones((2, 3)), 1, 1.0, bar="k"
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_load_balance_is_k_where_k_choices_are_even(k):
    even = np.full((6, 3), 1 / 3, "float32")
    chosen = np.array(
        [[(row + i) % 3 < k for i in range(3)] for row in range(6)]
    )
    loss = regularizers.load_balance_loss(even, chosen)
    assert float(loss) == pytest.approx(k)


def test_load_has_a_gradient_though_a_count_has_none(rng):
    logits = rng.normal(size=(20, 4)).astype("float32")
    (grad,) = gradient(lambda x: regularizers.load_loss(x, x, 2, 0.5), logits)
    assert np.abs(grad).max() > 0


CASES = {
    "importance": lambda x, mask: regularizers.importance_loss(
        softmax(x), mask
    ),
    "load": lambda x, mask: regularizers.load_loss(x, x, 2, 0.3, mask),
    "load beside others": lambda x, mask: regularizers.load_loss(
        x, x, 2, 0.3, mask, bar="others"
    ),
    "load balance": lambda x, mask: regularizers.load_balance_loss(
        softmax(x), x > 0, mask
    ),
    "router z": regularizers.router_z_loss,
    "trimmed lasso": lambda x, mask: regularizers.trimmed_lasso(
        softmax(x), 2, mask
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_masked_positions_do_not_count(name, rng):
    logits = rng.normal(size=(2, 3, 4)).astype("float32")
    kept = CASES[name](logits[MASK], None)
    np.testing.assert_allclose(
        to_numpy(CASES[name](logits, MASK)), to_numpy(kept), rtol=1e-5
    )
    logits[~MASK] = 100.0
    np.testing.assert_allclose(
        to_numpy(CASES[name](logits, MASK)), to_numpy(kept), rtol=1e-5
    )


@pytest.mark.parametrize("name", CASES)
def test_nothing_to_count_is_no_loss(name):
    logits = np.ones((2, 3, 4), "float32")
    assert float(CASES[name](logits, np.zeros((2, 3), bool))) == 0.0
    assert float(CASES[name](logits[:0], None)) == 0.0
