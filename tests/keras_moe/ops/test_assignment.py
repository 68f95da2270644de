import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from keras.ops import convert_to_numpy as to_numpy
from numpy.testing import assert_allclose
from numpy.testing import assert_array_equal

from keras_moe.ops import capped_assignment
from keras_moe.ops import integral_assignment
from keras_moe.ops.assignment import ENTROPY_WEIGHT
from keras_moe.ops.assignment import MAX_ITERATIONS
from tests.compiled import compiled
from tests.examples import examples

EXCLUDED = np.finfo("float32").min


def capped(scores, capacity, cap):
    return compiled(lambda x: capped_assignment(x, capacity, cap))(scores)


def integral(choice, capacity, cap):
    return compiled(lambda x: integral_assignment(x, capacity, cap))(choice)


def price(log_choices, total):
    """By bisection: what to subtract so that Σ min(1, exp(...)) is `total`."""
    low, high = log_choices.min() - 1.0, log_choices.max() + 10.0
    for _ in range(100):
        middle = (low + high) / 2
        above = np.exp(np.minimum(log_choices - middle, 0)).sum() > total
        low, high = (middle, high) if above else (low, middle)
    return high


def projected(scores, capacity, cap):
    """Columns and rows in turn, as published, in double precision."""
    log_scores = scores.astype("float64") / ENTROPY_WEIGHT
    rows = np.zeros((len(scores), 1))
    for _ in range(MAX_ITERATIONS):
        columns = [price(column, capacity) for column in (log_scores - rows).T]
        left = log_scores - np.array(columns)
        rows = np.maximum([[price(row, cap)] for row in left], 0)
    columns = [price(column, capacity) for column in (log_scores - rows).T]
    return np.exp(np.minimum(log_scores - rows - np.array(columns), 0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spread", [0.02, 1.0])
@pytest.mark.parametrize(
    ("rows", "capacity", "cap"), [(12, 2, 1), (12, 6, 2), (9, 1, 1), (5, 4, 3)]
)
def test_alternates_between_both_sums(rows, capacity, cap, spread, rng):
    scores = rng.dirichlet(np.full(3, 1 / spread), rows).astype("float32")
    choice = capped(scores, capacity, cap)
    assert_allclose(choice.sum(axis=0), capacity, rtol=1e-4)
    assert_allclose(choice, projected(scores, capacity, cap), atol=5e-3)


def test_excluded_rows_have_no_share(rng):
    scores = rng.dirichlet(np.ones(3), 10).astype("float32")
    with_more = np.insert(scores, 4, EXCLUDED, axis=0)
    choice = capped(with_more, 3, 1)
    assert not choice[4].any()
    expected = capped(scores, 3, 1)
    assert_allclose(np.delete(choice, 4, axis=0), expected, atol=1e-5)


def by_asking_one_by_one(choice, capacity, cap):
    """Deferred acceptance, one question after the other."""
    num_rows, num_experts = choice.shape
    held = [[] for _ in range(num_rows)]
    waiting = {e: iter(np.argsort(-choice[:, e])) for e in range(num_experts)}
    short = [e for e in range(num_experts) for _ in range(capacity)]
    while short:
        expert = short.pop()
        row = next(waiting[expert], None)
        if row is None:
            continue
        held[row].append(expert)
        if len(held[row]) > cap:
            worst = min(held[row], key=lambda e: choice[row, e])
            held[row].remove(worst)
            short.append(worst)
    taken = np.zeros(choice.shape, "bool")
    for row, experts in enumerate(held):
        taken[row, experts] = True
    return taken


@examples(25)
@given(
    st.integers(1, 12),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_nobody_would_rather_swap(rows, experts, capacity, cap, seed):
    rng = np.random.default_rng(seed)
    # No two are equal, so that there is one answer.
    choice = rng.permutation(rows * experts).reshape(rows, experts) + 1.0
    choice = choice.astype("float32")
    capacity = min(capacity, rows, rows * cap // experts)
    if capacity == 0:
        return
    taken = integral(choice, capacity, min(cap, experts))
    asked = by_asking_one_by_one(choice, capacity, min(cap, experts))
    assert (taken.sum(axis=1) <= cap).all()
    assert (taken.sum(axis=0) <= capacity).all()
    if (asked.sum(axis=0) == capacity).all():
        assert_array_equal(taken, asked)
    else:  # Exchanges only fill up.
        assert (taken.sum(axis=0) >= asked.sum(axis=0)).all()
        assert taken.sum() > asked.sum()


def test_equal_choices_go_to_the_earlier_row():
    taken = integral_assignment(ops.ones((5, 2)), capacity=2, max_per_row=1)
    assert_array_equal(
        to_numpy(taken), np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]).T
    )
