import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.baselines.spectral import Spectral
from tests.recsys.baselines.cases import all_scores
from tests.recsys.baselines.cases import random_interactions

OPTIONS = {
    "factors": 3,
    "item-exponent": 0.4,
    "user-exponent": 0.3,
    "low-pass": 0.2,
    "sharpening": 0.7,
}


@settings(max_examples=10)
@given(seed=st.integers(0, 99), factors=st.sampled_from([1, 3, 64]))
def test_scores_by_the_formula(seed: int, factors: int) -> None:
    dense, had = random_interactions(seed=seed)
    users, items = dense.sum(axis=1), np.maximum(dense.sum(axis=0), 1)
    scaled = dense / users[:, None] ** 0.3 / items**0.4
    _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
    scaled, x = scaled / values[0], (values / values[0]) ** 2
    added = (x + 0.2) * (1 - 0.7 * x) - x
    added[factors:] = 0
    filtered = scaled.T @ scaled + (vectors.T * added) @ vectors
    expected = (dense / items**0.4) @ filtered * items**0.4
    model = Spectral.fit(had, {**OPTIONS, "factors": factors})
    # Singular values may be close to each other where the factors end.
    near = factors < len(x) and x[factors - 1] - x[factors] < 1e-2
    if not near:
        np.testing.assert_allclose(all_scores(model, had), expected, atol=1e-4)


def test_a_history_is_all_that_is_looked_at() -> None:
    _, had = random_interactions()
    model = Spectral.fit(had, OPTIONS)
    history = had.matrix[[4]]
    same = model.scores(np.array([0]), history)
    np.testing.assert_array_equal(same, model.scores(np.array([4]), history))


@pytest.mark.parametrize("seed", [0, 1])
def test_seeds_agree_but_for_rounding(seed: int) -> None:
    _, had = random_interactions(40, 30)
    options = {**OPTIONS, "factors": 30}
    scores = all_scores(Spectral.fit(had, options, seed), had)
    others = all_scores(Spectral.fit(had, options, seed + 2), had)
    np.testing.assert_allclose(scores, others, atol=1e-4)
