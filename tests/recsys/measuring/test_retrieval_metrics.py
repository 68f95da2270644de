import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from recsys.measuring import retrieval_metrics as module
from recsys.measuring.retrieval_metrics import POPULAR
from recsys.measuring.retrieval_metrics import QueryRows
from recsys.measuring.retrieval_metrics import RetrievalMetrics
from recsys.measuring.retrieval_metrics import retrieval_metrics
from recsys.retrieval.user_targets import UserTargets

NUM_ITEMS = 5
# A user, an item, 0 for an unknown one, and a weight.
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, NUM_ITEMS), st.sampled_from([0.5, 2])
    ),
    min_size=1,
    max_size=6,
)
SCORES = st.lists(
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=5, max_size=5),
    min_size=3,
    max_size=3,
)
SEEN = st.lists(
    st.sets(st.integers(1, NUM_ITEMS), max_size=4), min_size=3, max_size=3
)


def expected_gains(
    scores: list[float], targets: set[int], candidates: set[int], k: int
) -> tuple[float, float]:
    """Mean hits and gain in the first k, over all orders of what ties."""
    hits, gains, orders = 0.0, 0.0, 0
    for order in itertools.permutations(sorted(candidates)):
        ranked = [scores[item - 1] for item in order]
        if ranked != sorted(ranked, reverse=True):
            continue
        orders += 1
        for rank, item in enumerate(order[:k], start=1):
            if item in targets:
                hits += 1
                gains += 1 / np.log2(1 + rank)
    return hits / max(1, orders), gains / max(1, orders)


def brute_force(
    rows: list[Any],
    scores: list[Any],
    seen: list[set[int]],
    k: int,
    keep: bool,
) -> dict[str, float]:
    every = set(range(1, NUM_ITEMS + 1))
    by_row, weights = [], [weight for _, _, weight in rows]
    for user, item, _ in rows:
        own = {item} - ({0} if keep else {0, *seen[user]})
        candidates = every - (seen[user] - own)
        by_row.append(expected_gains(scores[user], own, candidates, k))
    by_user = []
    for user in {user for user, _, _ in rows}:
        # Every unknown item is the same one.
        targets = {item for one, item, _ in rows if one == user}
        left = targets if keep else targets - seen[user]
        candidates = every - (seen[user] - left)
        hits, gain = expected_gains(scores[user], left, candidates, k)
        ideal = sum(
            1 / np.log2(1 + rank) for rank in range(1, min(k, len(targets)) + 1)
        )
        by_user.append((hits / len(targets), gain / ideal))
    recall, ndcg = np.average(by_row, axis=0, weights=weights)
    user_recall, user_ndcg = np.mean(by_user, axis=0)
    return {
        f"recall@{k}": recall,
        f"ndcg@{k}": ndcg,
        f"user_recall@{k}": user_recall,
        f"user_ndcg@{k}": user_ndcg,
    }


def targets_of(rows: list[Any]) -> UserTargets:
    users, items, _ = map(pd.Series, zip(*rows, strict=True))
    return UserTargets.of([(users, items, items.to_numpy(), None)])


def measured(
    rows: list[Any],
    scores: list[Any],
    seen: list[set[int]],
    k: int,
    block: int,
    keep: bool = True,
) -> dict[str, Any]:
    metrics = RetrievalMetrics(k, targets_of(rows), keep)
    for start in range(0, len(rows), block):
        part = rows[start : start + block]
        pairs = [
            (row, item)
            for row, (user, _, _) in enumerate(part)
            for item in seen[user]
        ]
        excluded = np.array(pairs, np.int64).reshape(-1, 2).T
        metrics.add(
            QueryRows(
                start,
                np.array([item for _, item, _ in part]),
                np.array([weight for _, _, weight in part]),
                (excluded[0], excluded[1]),
            ),
            np.array([scores[user] for user, _, _ in part]),
        )
    return metrics.result()


@settings(max_examples=60)
@given(
    rows=ROWS,
    scores=SCORES,
    seen=SEEN,
    k=st.integers(1, 6),
    block=st.integers(1, 6),
    keep=st.booleans(),
)
def test_against_brute_force(
    rows: list[Any],
    scores: list[Any],
    seen: list[set[int]],
    k: int,
    block: int,
    keep: bool,
) -> None:
    found = measured(rows, scores, seen, k, block, keep)
    expected = brute_force(rows, scores, seen, k, keep)
    assert found == pytest.approx(expected, abs=1e-12)


def test_two_targets_by_hand() -> None:
    """Of the first three, the first and the third are two of four targets."""
    rows = [(0, item, 1) for item in (1, 3, 4, 0)]
    scores = [[5.0, 4.0, 3.0, 1.0, 2.0]]
    found = measured(rows, scores, [set()], 3, 4)
    ideal = 1 + 1 / np.log2(3) + 1 / 2
    assert found["user_recall@3"] == 2 / 4
    assert found["user_ndcg@3"] == pytest.approx((1 + 1 / 2) / ideal)
    assert found["recall@3"] == 2 / 4


def test_seen_targets_may_be_misses() -> None:
    """Of the two targets, item 1 has been had before."""
    rows = [(0, 1, 1), (0, 2, 1)]
    scores = [[5.0, 4.0, 3.0, 2.0, 1.0]]
    kept = measured(rows, scores, [{1, 4}], 5, 2)
    assert kept["recall@5"] == kept["user_recall@5"] == 1.0
    missed = measured(rows, scores, [{1, 4}], 5, 2, keep=False)
    assert missed["recall@5"] == missed["user_recall@5"] == 1 / 2
    # Item 2 has become the first.
    assert missed["ndcg@5"] == 1 / 2
    ideal = 1 + 1 / np.log2(3)
    assert missed["user_ndcg@5"] == pytest.approx(1 / ideal)


def test_a_perfect_ranking_has_the_ndcg_of_one() -> None:
    rows = [(0, item, 1) for item in (1, 2, 3)]
    found = measured(rows, [[9.0, 8.0, 7.0, 1.0, 1.0]], [set()], 2, 3)
    assert found["user_ndcg@2"] == pytest.approx(1.0)
    assert found["ndcg@2"] < 1.0


@pytest.mark.parametrize("exclude", [False, True])
def test_a_constant_score_comes_out_as_chance(exclude: bool) -> None:
    """Whatever place the targets have in the catalogue."""
    num_items, k = 50, 10
    rng = np.random.default_rng(0)
    rows = [(user, item, 1) for user, item in rng.integers(1, 51, (90, 2))]
    seen = [
        set(rng.integers(1, 51, 15).tolist()) if exclude else set()
        for _ in range(51)
    ]
    scores = np.zeros((51, num_items)).tolist()
    found = measured(rows, scores, seen, k, 7)
    chances, of_users = [], []
    for user, item, _ in rows:
        left = num_items - len(seen[user] - {item})
        chances.append(k / left)
    for user in {user for user, _, _ in rows}:
        targets = {item for one, item, _ in rows if one == user}
        of_users.append(k / (num_items - len(seen[user] - targets)))
    assert found["recall@10"] == pytest.approx(np.mean(chances))
    assert found["user_recall@10"] == pytest.approx(np.mean(of_users))


def test_rows_and_users_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few scores at a time change nothing."""
    monkeypatch.setattr(module, "_SCORES", 2 * NUM_ITEMS)
    assert module.rows_at_once(NUM_ITEMS) == 2
    rows = [(0, 1, 1), (0, 2, 1), (1, 2, 1)]
    block = QueryRows(0, np.array([1, 2, 2]), np.ones(3))
    best = np.array([[2.0, 1.0, 0.0, 0.0, 0.0]] * 3)
    popular = np.array([[0.0, 1.0, 2.0, 0.0, 0.0]] * 3)
    found = retrieval_metrics(
        [(block, {"": best, POPULAR: popular})], 1, targets_of(rows), NUM_ITEMS
    )
    assert found == {
        "recall@1": pytest.approx(1 / 3),
        "ndcg@1": pytest.approx(1 / 3),
        "user_recall@1": pytest.approx(1 / 4),
        "user_ndcg@1": pytest.approx(1 / 2),
        "rows": 3,
        "items": NUM_ITEMS,
        "users": 2,
        "popular": {
            "recall@1": 0.0,
            "ndcg@1": 0.0,
            "user_recall@1": 0.0,
            "user_ndcg@1": 0.0,
        },
    }


def test_without_users_or_rows() -> None:
    assert RetrievalMetrics(3, None).result() == {
        "recall@3": None,
        "ndcg@3": None,
    }
    nobody = RetrievalMetrics(3, UserTargets.of([])).result()
    assert nobody["user_recall@3"] is nobody["user_ndcg@3"] is None
