from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys.retrieval.in_batch_softmax import in_batch_softmax

QUERIES = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]
ITEMS = [[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]]


def losses(
    queries: Any, items: Any, numbers: Any, probabilities: Any
) -> np.ndarray:
    return ops.convert_to_numpy(
        in_batch_softmax(
            np.array(queries, np.float32),
            np.array(items, np.float32),
            np.array(numbers, np.int32),
            np.array(probabilities, np.float32),
        )
    )


def reference(
    queries: Any, items: Any, numbers: Any, probabilities: Any
) -> np.ndarray:
    """The definition, row by row, in float64."""
    logits = np.asarray(queries, float) @ np.asarray(items, float).T
    logits = logits - np.log(np.asarray(probabilities, float))
    expected = []
    for row, number in enumerate(numbers):
        others = [
            column
            for column in range(len(numbers))
            if column == row or numbers[column] != number
        ]
        summed = np.exp(logits[row, others]).sum()
        expected.append(np.log(summed) - logits[row, row])
    return np.array(expected)


def test_by_hand() -> None:
    # u_0 scores 3, 1 and 2; all items are equally frequent.
    received = losses(QUERIES, ITEMS, [1, 2, 3], [0.5, 0.5, 0.5])
    expected = np.log(np.exp([3.0, 1.0, 2.0]).sum()) - 3.0
    np.testing.assert_allclose(received[0], expected, rtol=1e-6)


def test_the_same_item_in_another_row_is_none_to_be_told_apart() -> None:
    received = losses(QUERIES, ITEMS, [7, 2, 7], [0.5, 0.5, 0.5])
    expected = np.log(np.exp([3.0, 1.0]).sum()) - 3.0
    np.testing.assert_allclose(received[0], expected, rtol=1e-6)


def test_one_item_alone_teaches_nothing() -> None:
    received = losses(QUERIES, ITEMS, [4, 4, 4], [0.5, 0.5, 0.5])
    np.testing.assert_allclose(received, 0.0, atol=1e-6)


@pytest.mark.parametrize("rarest", [1e-3, 1e-9])
def test_against_numpy(rarest: float) -> None:
    generator = np.random.default_rng(0)
    queries, items = generator.normal(size=(2, 50, 8))
    numbers = generator.integers(0, 20, 50)
    shares = np.geomspace(rarest, 0.5, 20)[numbers]
    np.testing.assert_allclose(
        losses(queries, items, numbers, shares),
        reference(queries, items, numbers, shares),
        rtol=2e-5,
        atol=2e-5,
    )
