import math

import numpy as np
import pytest

from keras_moe.metrics import jaccard_index
from keras_moe.metrics import jaccard_indices

WEIGHTS = np.array(
    [
        [0.5, 0.5, 0.0, 0.0],  # {0, 1}
        [0.0, 0.2, 0.8, 0.0],  # {1, 2}
        [0.1, 0.3, 0.6, 0.0],  # {0, 1, 2}
        [0.0, 0.0, 0.3, 0.7],  # {2, 3}
    ]
)


def test_hand_computed_within_and_across_groups():
    related, unrelated = jaccard_index(WEIGHTS, [0, 0, 1, 1])
    # Pairs 01 and 23: 1/3 and 1/4; 02, 03, 12 and 13: 2/3, 0, 2/3 and 1/3.
    assert related == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert unrelated == pytest.approx((2 / 3 + 0 + 2 / 3 + 1 / 3) / 4)


def test_hand_computed_for_each_pair():
    expected = [
        [1, 1 / 3, 2 / 3, 0],
        [1 / 3, 1, 2 / 3, 1 / 3],
        [2 / 3, 2 / 3, 1, 1 / 4],
        [0, 1 / 3, 1 / 4, 1],
    ]
    np.testing.assert_allclose(jaccard_indices(WEIGHTS), expected)


def test_every_row_of_a_batch_has_its_own_indices():
    rows = np.stack([WEIGHTS, WEIGHTS[::-1], np.ones((4, 4))])
    indices = jaccard_indices(rows)
    np.testing.assert_allclose(indices[0], indices[1, ::-1, ::-1])
    np.testing.assert_array_equal(indices[2], 1)


def test_two_tasks_without_experts_have_no_index():
    indices = jaccard_indices([[0.0, 0.0], [0.0, 0.0], [0.5, 0.5]])
    assert np.isnan(indices[:2, :2]).all()
    assert indices[0, 2] == 0


def test_the_order_of_the_tasks_does_not_matter():
    order = [2, 0, 3, 1]
    assert jaccard_index(WEIGHTS[order], [1, 0, 1, 0]) == pytest.approx(
        jaccard_index(WEIGHTS, [0, 0, 1, 1])
    )


def test_the_same_experts_everywhere():
    assert jaccard_index(np.full((4, 3), 1 / 3), [0, 0, 1, 1]) == (1, 1)


def test_weights_below_the_threshold_select_nothing():
    weights = [[1.0, 9e-6], [0.5, 0.5], [0.0, 1.0]]
    assert jaccard_index(weights, [0, 0, 1]) == (0.5, 0.25)


def test_groups_without_such_a_pair_have_no_index():
    related, unrelated = jaccard_index(WEIGHTS, [0] * 4)
    assert 0 < related < 1
    assert math.isnan(unrelated)
    related, unrelated = jaccard_index(WEIGHTS, range(4))
    assert math.isnan(related)
    assert 0 < unrelated < 1


@pytest.mark.parametrize("weights", [WEIGHTS[:3], WEIGHTS[0], WEIGHTS[None]])
def test_a_row_a_task_is_needed(weights):
    with pytest.raises(
        ValueError, match=r"`weights` must have a row for each of the 4 tasks"
    ):
        jaccard_index(weights, [0, 0, 1, 1])


def test_a_task_without_experts_is_refused():
    weights = [[0.5, 0.5], [0.0, 0.0], [0.0, 1e-6]]
    with pytest.raises(ValueError, match=r"Received: none .* tasks \[1, 2\]"):
        jaccard_index(weights, [0, 0, 1])
