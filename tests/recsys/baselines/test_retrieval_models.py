from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime

from recsys.baselines import RETRIEVAL
from recsys.baselines import ials
from recsys.baselines.ease import Ease
from recsys.baselines.fitted_retrieval import FittedRetrieval
from recsys.baselines.fitted_retrieval import read_retrieval
from recsys.baselines.fitted_retrieval import write_retrieval
from recsys.baselines.ials import Ials
from recsys.baselines.interactions import Queries
from recsys.baselines.item_knn import ItemKNN
from recsys.baselines.mf import MatrixFactorization
from recsys.baselines.mf import loss_and_gradient
from recsys.baselines.popular import Popular
from recsys.baselines.retrieval_data import RetrievalData
from recsys.data import Dataset
from recsys.data import Schema
from recsys.errors import FileError
from tests.recsys.baselines.cases import all_scores
from tests.recsys.baselines.cases import ids
from tests.recsys.baselines.cases import random_interactions


def test_popular_counts_rows() -> None:
    dense, had = random_interactions()
    scores = all_scores(Popular.fit(had, {}), had)
    np.testing.assert_array_equal(scores, [dense.sum(axis=0)] * len(dense))


@settings(max_examples=10)
@given(seed=st.integers(0, 99), penalty=st.sampled_from([0.5, 10.0]))
def test_ease_is_the_constrained_minimum(seed: int, penalty: float) -> None:
    """Each column by itself: a ridge regression without its own item."""
    dense, had = random_interactions(seed=seed)
    model = Ease.fit(had, {"lambda": penalty})
    expected = np.zeros((8, 8))
    for item in range(8):
        others = np.delete(np.arange(8), item)
        x = dense[:, others]
        left = x.T @ x + penalty * np.eye(7)
        expected[others, item] = np.linalg.solve(left, x.T @ dense[:, item])
    np.testing.assert_allclose(model.weights, expected, atol=1e-5)
    scores = all_scores(model, had)
    np.testing.assert_allclose(scores, dense @ expected, atol=1e-4)


def test_ease_of_more_items_than_a_block() -> None:
    dense, had = random_interactions(30, 600)
    weights = Ease.fit(had, {"lambda": 5.0}).weights
    inverse = np.linalg.inv(dense.T @ dense + 5.0 * np.eye(600))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(weights, expected, atol=1e-5)


@settings(max_examples=10)
@example(seed=41, most=3)  # Equal cosines of unequal numbers.
@given(seed=st.integers(0, 99), most=st.sampled_from([1, 3, 50]))
def test_item_knn_by_loops(seed: int, most: int) -> None:
    dense, had = random_interactions(seed=seed)
    scores = all_scores(ItemKNN.fit(had, {"neighbours": most}), had)
    expected = np.zeros(dense.shape)
    for item in range(8):
        similar = []
        for other in range(8):
            both = float(dense[:, item] @ dense[:, other])
            sizes = dense[:, item].sum() * dense[:, other].sum()
            squared = both**2 / sizes if other != item and sizes else 0.0
            cosine = float(np.sqrt(squared))
            similar.append((-cosine, other))
        for cosine, other in sorted(similar)[:most]:
            expected[:, item] += -cosine * dense[:, other]
    np.testing.assert_allclose(scores, expected, atol=1e-12)


def ials_loss(
    users: Any, items: Any, dense: Any, alpha: float, penalty: float
) -> float:
    """As it is written in the class's docstring."""
    scores = users @ items.T
    loss = (dense * (scores - 1) ** 2).sum() + alpha * (scores**2).sum()
    of_users = dense.sum(axis=1) + alpha * dense.shape[1]
    of_items = dense.sum(axis=0) + alpha * dense.shape[0]
    loss += penalty * (of_users @ (users**2).sum(axis=1))
    return float(loss + penalty * (of_items @ (items**2).sum(axis=1)))


def test_ials_solves_for_the_minimum_of_one_side() -> None:
    dense, had = random_interactions()
    items = np.random.default_rng(1).normal(size=(8, 3))
    users = ials.solve(had.matrix[:-1], items, 0.3, 0.05)
    gradient = approx_fprime(
        users.ravel(),
        lambda flat: ials_loss(flat.reshape(15, 3), items, dense, 0.3, 0.05),
        1e-7,
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-4)


def test_ials_comes_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the minimum, no direction goes down, on the items' side either."""
    monkeypatch.setattr(ials, "SWEEPS", 400)
    dense, had = random_interactions()
    options = {"factors": 3, "lambda": 0.1, "alpha": 0.3}
    model = Ials.fit(had, options)
    users = ials.solve(had.matrix[:-1], model.items, 0.3, 0.1)
    gradient = approx_fprime(
        model.items.ravel(),
        lambda flat: ials_loss(users, flat.reshape(8, 3), dense, 0.3, 0.1),
        1e-7,
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-3)
    np.testing.assert_allclose(all_scores(model, had), users @ model.items.T)


def test_mf_has_the_gradient_of_its_loss() -> None:
    _, had = random_interactions(6, 5)
    values = np.random.default_rng(0).normal(0, 0.5, (6 + 5) * 2 + 5)
    arguments = had.matrix[:-1], 2, 0.3
    _, gradient = loss_and_gradient(values, *arguments)
    expected = [
        (
            loss_and_gradient(values + step, *arguments)[0]
            - loss_and_gradient(values - step, *arguments)[0]
        )
        / 2e-2
        for step in 1e-2 * np.eye(len(values))
    ]
    np.testing.assert_allclose(gradient, expected, atol=2e-3)


def test_mf_loss_by_hand() -> None:
    dense, had = random_interactions(3, 4)
    rng = np.random.default_rng(0)
    users, items, biases = (
        rng.normal(size=shape) for shape in ((3, 2), (4, 2), (4,))
    )
    scores = users @ items.T + biases
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    expected = -(dense * np.log(shares)).sum()
    expected += 0.3 * (dense.sum(axis=1) @ (users**2).sum(axis=1))
    expected += 0.3 * (dense.sum(axis=0) @ (items**2).sum(axis=1))
    values = np.concatenate([users.ravel(), items.ravel(), biases])
    found, _ = loss_and_gradient(values, had.matrix[:-1], 2, 0.3)
    assert found == pytest.approx(expected, rel=1e-5)


def test_mf_learns_who_has_what() -> None:
    dense, had = random_interactions()
    options = {"factors": 4, "lambda": 0.001}
    scores = all_scores(MatrixFactorization.fit(had, options), had)
    assert scores[dense == 1].mean() > scores[dense == 0].mean() + 1


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize("name", RETRIEVAL)
def test_what_is_written_is_read(name: str, texts: bool, tmp_path: Any) -> None:
    _, had = random_interactions(texts=texts)
    kind = RETRIEVAL[name]
    options = {key: option.first for key, option in kind.options.items()}
    fitted = FittedRetrieval(kind.fit(had, options), had)
    write_retrieval(fitted, tmp_path)
    again = read_retrieval(kind, tmp_path)
    # The last one is unknown: what is popular.
    users = np.arange(had.num_users + 1)
    scores = fitted.scores(users)
    np.testing.assert_array_equal(again.scores(users), scores)
    np.testing.assert_allclose(scores[-1], had.counts)
    assert again.interactions.items.equals(had.items)
    best = again.best(ids([3], texts)[0], 4, exclude_seen=True)
    own = had.matrix[[3]].indices
    assert not set(best["number"]) & set(own.tolist())
    assert best["score"].is_monotonic_decreasing
    starts = tmp_path / "history_starts.npy"
    np.save(starts, np.load(starts)[:-1])
    with pytest.raises(FileError, match=r"history_starts.*shape \(17\).*\(16"):
        read_retrieval(kind, tmp_path)


@pytest.mark.parametrize("texts", [False, True])
def test_metrics_of_a_constant_are_those_of_chance(texts: bool) -> None:
    _, had = random_interactions(texts=texts)
    model = Popular(counts=np.zeros(8))
    users, items = np.arange(15), np.arange(15) % 8
    queries = Queries.of([(ids(users, texts), ids(items, texts), np.ones(15))])
    found = FittedRetrieval(model, had).measure(queries, 4, None)
    assert found["recall@4"] == pytest.approx(4 / 8)
    assert found["user_recall@4"] == pytest.approx(4 / 8)
    assert found["users"] == found["rows"] == 15


@pytest.mark.parametrize("texts", [False, True])
def test_the_test_split_leaves_out_what_the_validation_split_has(
    texts: bool,
) -> None:
    def rows(users: list[int], items: list[int]) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "user": ids(np.array(users), texts),
                "item": ids(np.array(items), texts),
                "like": 1.0,
            }
        )

    splits = {
        "train": rows([0, 0, 1], [0, 1, 2]),
        "validation": rows([0, 1], [2, 3]),
        "test": rows([0], [3]),
    }
    schema = Schema("log", {"user": "id", "item": "id"}, {"like": "binary"})
    data = RetrievalData(Dataset(schema, splits), "like")
    items = data.interactions(["train"]).items  # 3 is not among them.
    of_user = ids(np.array([0]), texts)[0]
    assert data.seen("validation", items).by(of_user).tolist() == [1, 2]
    assert data.seen("test", items).by(of_user).tolist() == [1, 2, 3]
