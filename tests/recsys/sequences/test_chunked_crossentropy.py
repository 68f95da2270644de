from typing import Any

import numpy as np
import pytest

from recsys.sequences.chunked_crossentropy import chunked_crossentropy
from tests.compiled import compiled
from tests.gradients import gradient


def reference(
    queries: Any, items: Any, targets: Any, weights: Any
) -> tuple[float, Any, Any]:
    """The loss and both gradients, all logits at once."""
    shares = weights / weights.sum()
    logits = queries @ items.T
    logits = logits - logits.max(1, keepdims=True)
    sums = np.exp(logits).sum(1, keepdims=True)
    rows = np.arange(len(queries))
    loss = (shares * (np.log(sums[:, 0]) - logits[rows, targets])).sum()
    errors = np.exp(logits) / sums
    errors[rows, targets] -= 1
    errors *= shares[:, None]
    return loss, errors @ items, errors.T @ queries


def given(rng: np.random.Generator) -> tuple[Any, ...]:
    queries = rng.normal(size=(7, 3)).astype("float32")
    items = rng.normal(size=(5, 3)).astype("float32")
    targets = np.array([0, 4, 4, 2, 0, 1, 3], np.int32)
    weights = np.array([1, 0, 2, 1, 1, 0, 0.5], np.float32)
    return queries, items, targets, weights


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_loss_and_gradients_are_those_of_all_logits_at_once(
    rng: np.random.Generator, chunk: int
) -> None:
    queries, items, targets, weights = given(rng)
    loss, of_queries, of_items = reference(queries, items, targets, weights)

    def tripled(queries: Any, items: Any) -> Any:
        return 3 * chunked_crossentropy(queries, items, targets, weights, chunk)

    received = compiled(tripled)(queries, items)
    np.testing.assert_allclose(received, 3 * loss, rtol=1e-5)
    gradients = gradient(tripled, queries, items)
    np.testing.assert_allclose(gradients[0], 3 * of_queries, atol=1e-6)
    np.testing.assert_allclose(gradients[1], 3 * of_items, atol=1e-6)


def test_products_of_half_precision_lose_few_digits(
    rng: np.random.Generator,
) -> None:
    queries, items, targets, weights = given(rng)
    loss, of_queries, of_items = reference(queries, items, targets, weights)

    def rough(queries: Any, items: Any) -> Any:
        return chunked_crossentropy(
            queries, items, targets, weights, 3, "bfloat16"
        )

    received = compiled(rough)(queries, items)
    np.testing.assert_allclose(received, loss, rtol=0.01)
    assert abs(received - loss) > 1e-6 * loss  # It is half precision.
    for one, expected in zip(
        gradient(rough, queries, items), (of_queries, of_items), strict=True
    ):
        np.testing.assert_allclose(one, expected, atol=0.01)


def test_large_logits_do_not_overflow(rng: np.random.Generator) -> None:
    queries, items, targets, weights = given(rng)
    loss, *_ = reference(100.0 * queries, items, targets, weights)
    received = compiled(chunked_crossentropy)(
        100 * queries, items, targets, weights
    )
    np.testing.assert_allclose(received, loss, rtol=1e-5)


def test_nothing_counts_nothing(rng: np.random.Generator) -> None:
    queries, items, targets, weights = given(rng)

    def loss(queries: Any, items: Any) -> Any:
        return chunked_crossentropy(queries, items, targets, 0 * weights)

    assert compiled(loss)(queries, items) == 0
    for one in gradient(loss, queries, items):
        np.testing.assert_array_equal(one, 0)
