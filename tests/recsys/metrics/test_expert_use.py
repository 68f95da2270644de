from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recsys.metrics import ExpertUse


def use_of(weights: Any) -> ExpertUse:
    """By the definition, from the weights of all rows."""
    weights = np.asarray(weights, float)
    routed = weights[weights.sum(axis=1) > 0]
    shares = routed / routed.sum(axis=1, keepdims=True)
    return ExpertUse(
        np.packbits(weights > 0, axis=1, bitorder="little"),
        shares.sum(axis=0),
        float(sum(map(entropy, shares))),
    )


def entropy(shares: Any) -> float:
    there = shares[shares > 0]
    return float(-(there * np.log2(there)).sum())


def test_one_set_for_all_rows_tells_nothing() -> None:
    use = use_of([[0.5, 0, 0.5, 0]] * 8)
    assert use.most_frequent_set == 1.0
    assert use.mutual_information == 0.0
    assert use.dead.tolist() == [False, True, False, True]


def test_an_expert_for_each_row_tells_which_row_it_is() -> None:
    use = use_of(np.eye(4))
    assert use.most_frequent_set == 0.25
    assert use.mutual_information == pytest.approx(2.0)
    assert not use.dead.any()


def test_by_hand() -> None:
    # Shares of (1/2, 1/2), (1, 0) and (1, 0); one row has none.
    use = use_of([[0.5, 0.5, 0], [3, 0, 0], [0, 0, 0], [7, 0, 0]])
    assert use.most_frequent_set == 0.5
    mean = np.array([2.5, 0.5]) / 3
    assert use.mutual_information == pytest.approx(entropy(mean) - 1 / 3)
    assert use.dead.tolist() == [False, False, True]


def test_weights_of_one_set_may_tell_rows_apart() -> None:
    use = use_of([[0.9, 0.1], [0.1, 0.9]])
    assert use.most_frequent_set == 1.0
    known = 1 - entropy(np.array([0.9, 0.1]))
    assert use.mutual_information == pytest.approx(known)


def test_rows_without_experts_share_the_empty_set() -> None:
    use = use_of([[0, 0], [0, 0], [1, 0]])
    assert use.most_frequent_set == pytest.approx(2 / 3)
    assert use.mutual_information == 0.0
    assert use_of([[0, 0]]).mutual_information is None


def test_no_rows() -> None:
    use = use_of(np.zeros((0, 9)))
    assert use.most_frequent_set is use.mutual_information is None
    assert use.dead.all()


def test_weights_that_are_not_finite_tell_nothing_that_is_known() -> None:
    nan = float("nan")
    sets = np.array([[1], [1]], np.uint8)
    assert ExpertUse(sets, np.array([nan, 1.0]), nan).mutual_information is None


def test_sets_of_hundreds_of_experts_are_told_apart_exactly() -> None:
    """Each of these differs from the others in one expert alone."""
    weights = np.ones((300, 300)) - np.eye(300)
    use = use_of(np.concatenate([weights, weights[7:8]]))
    assert use.most_frequent_set == pytest.approx(2 / 301)


@given(
    arrays(
        float,
        st.tuples(st.integers(1, 30), st.integers(2, 20)),
        elements=st.sampled_from([0.0, 0.0, 0.25, 1.0, 3.0]),
    )
)
def test_against_sets_of_python(weights: Any) -> None:
    use = use_of(weights)
    counts = Counter(tuple(np.flatnonzero(row)) for row in weights)
    assert use.most_frequent_set == max(counts.values()) / len(weights)
    assert use.dead.tolist() == [not column.any() for column in weights.T]
    if use.mutual_information is not None:
        bound = np.log2(weights.shape[1]) + 1e-9
        assert 0 <= use.mutual_information <= bound
