from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._expert_groups import within_best_groups
from keras_moe.ops.masked_softmax import FLOAT32_MIN
from tests.compiled import compiled
from tests.examples import examples


def brute_force(
    row: np.ndarray, num_groups: int, groups_per_example: int, num_counted: int
) -> np.ndarray:
    """The best of all sets of groups; of equal ones, the first."""
    groups = np.split(row, num_groups)
    goodness = [np.sort(group)[-num_counted:].sum() for group in groups]
    best = max(
        combinations(range(num_groups), groups_per_example),
        key=lambda kept: sum(goodness[group] for group in kept),
    )
    kept = np.repeat(np.isin(range(num_groups), best), len(groups[0]))
    return np.where(kept, row, FLOAT32_MIN)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("size", "num_groups", "groups_per_example", "num_counted"),
    [(3, 4, 2, 2), (4, 3, 1, 2), (2, 4, 3, 1), (1, 5, 2, 1)],
)
def test_it_is_the_best_of_all_sets_of_groups(
    size: int, num_groups: int, groups_per_example: int, num_counted: int
) -> None:
    limited = compiled(
        lambda scores: within_best_groups(
            scores, num_groups, groups_per_example, num_counted
        )
    )

    @examples(50)
    @given(
        st.lists(
            # Whole numbers: sums are exact, ties frequent, some negative.
            st.integers(-4, 8),
            min_size=6 * size * num_groups,
            max_size=6 * size * num_groups,
        )
    )
    def check(entries: list[int]) -> None:
        scores = np.array(entries, "float32").reshape(2, 3, -1)
        expected = np.apply_along_axis(
            brute_force, -1, scores, num_groups, groups_per_example, num_counted
        )
        np.testing.assert_array_equal(limited(scores), expected)

    check()


@pytest.mark.parametrize("place", [0, 5])
def test_nan_stays_and_keeps_to_its_row(place: int) -> None:
    scores = np.tile(np.arange(6.0, dtype="float32"), (2, 1))
    scores[0, place] = float("nan")
    limited = to_numpy(within_best_groups(scores, 2, 1, 2))
    assert np.isnan(limited[0, place])
    np.testing.assert_array_equal(limited[1], [FLOAT32_MIN] * 3 + [3, 4, 5])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [(6,), (0, 6), (2, 0, 6)])
def test_it_takes_any_rank_and_no_rows(shape: tuple[int, ...]) -> None:
    scores = np.zeros(shape, "float32")
    assert tuple(within_best_groups(scores, 3, 2, 2).shape) == shape
