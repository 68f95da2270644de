"""Candidates of a batch, against what the definitions say row by row."""

from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from recsys.retrieval.negatives import AllItems
from recsys.retrieval.negatives import Candidates
from recsys.retrieval.negatives import Items
from recsys.retrieval.negatives import MixedNegatives
from recsys.retrieval.negatives import Negatives
from recsys.retrieval.negatives import UniformNegatives
from recsys.retrieval.negatives import hardest
from tests.examples import examples

pytestmark = pytest.mark.traced_once("tensorflow")

KINDS = [Negatives, UniformNegatives, MixedNegatives, AllItems]
NUM_ITEMS, COUNT = 9, 6


def arrays(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries, the numbers of their items, and the vectors of all items."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(5, 3)).astype("float32")
    table = rng.normal(size=(NUM_ITEMS + 1, 3)).astype("float32")
    return queries, rng.integers(1, NUM_ITEMS + 1, 5).astype("int32"), table


def items(table: np.ndarray, numbers: np.ndarray) -> Items:
    corrections = np.arange(NUM_ITEMS + 1, dtype="float32")[numbers]
    return Items(
        *map(ops.convert_to_tensor, (table[numbers], numbers, corrections))
    )


def candidates_of(
    kind: type[Negatives], seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    queries, numbers, table = arrays(seed)
    negatives = kind(NUM_ITEMS, COUNT)
    drawn: Items | None = None
    more = np.zeros(0, "int32")
    if negatives.draws:
        more = ops.convert_to_numpy(
            negatives.draw(keras.random.SeedGenerator(seed))
        )
        drawn = items(table, more)
    received = negatives.candidates(
        ops.convert_to_tensor(queries), items(table, numbers), drawn
    )
    parts = {
        name: ops.convert_to_numpy(part)
        for name, part in received._asdict().items()
    }
    scores = queries.astype(float) @ table.T + np.arange(NUM_ITEMS + 1)
    return parts, numbers, more, scores


def expected_negatives(
    kind: type[Negatives], numbers: np.ndarray, more: np.ndarray, row: int
) -> list[int]:
    """The negatives of a row, by the sentences of the docstrings."""
    batch = [number for number in numbers if number != numbers[row]]
    others = [number for number in more if number != numbers[row]]
    return {
        Negatives: batch,
        UniformNegatives: others,
        MixedNegatives: batch + others,
        AllItems: others,
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(seed=st.integers(0, 10**6))
def test_own_item_and_negatives(kind: type[Negatives], seed: int) -> None:
    parts, numbers, more, scores = candidates_of(kind, seed)
    assert (parts["positives"].sum(axis=1) == 1).all()
    assert parts["scores"].shape == (
        5,
        kind(NUM_ITEMS, COUNT).num_candidates(5),
    )
    assert not (parts["positives"] & ~parts["counted"]).any()
    for row, number in enumerate(numbers):
        own = parts["scores"][row][parts["positives"][row]]
        np.testing.assert_allclose(
            own, scores[row, [number]], rtol=1e-4, atol=1e-5
        )
        there = parts["counted"][row] & ~parts["positives"][row]
        expected = scores[row, expected_negatives(kind, numbers, more, row)]
        np.testing.assert_allclose(
            np.sort(parts["scores"][row][there]),
            np.sort(expected),
            rtol=1e-4,
            atol=1e-5,
        )


@pytest.mark.parametrize("kind", [UniformNegatives, MixedNegatives])
def test_all_items_are_drawn_alike(kind: type[Negatives]) -> None:
    numbers = ops.convert_to_numpy(
        kind(4, 20_000).draw(keras.random.SeedGenerator(0))
    )
    counts = np.bincount(numbers, minlength=5)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:], 5_000, rtol=0.05)


def test_counts_of_mixed_negatives_are_those_of_draws() -> None:
    rng = np.random.default_rng(0)
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    times = 4_000
    counted = np.zeros(4)
    for _ in range(times):
        counted += np.bincount(rng.choice(4, 5, p=shares), minlength=4)
        counted += np.bincount(rng.integers(0, 4, 3), minlength=4)
    negatives = MixedNegatives(num_items=4, count=3)
    expected = negatives.expected_counts(
        ops.convert_to_tensor(shares.astype("float32")), 5
    )
    np.testing.assert_allclose(
        counted / times, ops.convert_to_numpy(expected), rtol=0.05
    )


@pytest.mark.parametrize("count", [1, 2, 50])
def test_the_hardest_are_the_highest(count: int) -> None:
    parts, *_ = candidates_of(MixedNegatives, 3)
    received = hardest(
        Candidates(**{n: ops.convert_to_tensor(p) for n, p in parts.items()}),
        count,
    )
    kept: dict[str, Any] = {
        name: ops.convert_to_numpy(part)
        for name, part in received._asdict().items()
    }
    for row in range(5):
        own = parts["positives"][row]
        there = parts["counted"][row] & ~own
        expected = np.sort(parts["scores"][row][there])[-count:]
        of_row = kept["counted"][row] & ~kept["positives"][row]
        np.testing.assert_array_equal(
            np.sort(kept["scores"][row][of_row]), expected
        )
        np.testing.assert_array_equal(
            kept["scores"][row][kept["positives"][row]],
            parts["scores"][row][own],
        )
