from typing import ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes

STEPS = 100  # Of L-BFGS.
_SCORES = 1 << 22  # At a time, 16 MiB of them.


class MatrixFactorization(RetrievalBaseline):
    """Factors by the softmax over all items, with a penalty of vectors.

        L = -Σ_{(u,i): u has had i} log softmax_i(⟨w_u, h_i⟩ + b_i)
            + λ (Σ_u |I_u| ‖w_u‖² + Σ_i |U_i| ‖h_i‖²)

    minimised over all vectors and the biases b at once by 100 steps of
    L-BFGS, with I_u the items that user u has had and U_i the users of item
    i: the penalty of a vector counts each time that it is looked up.

    References:
        Covington, Adams, Sargin. Deep Neural Networks for YouTube
        Recommendations. RecSys 2016, section 3.1, for the softmax over items.
        Liu and Nocedal. On the Limited Memory BFGS Method for Large Scale
        Optimization. 1989.
    """

    about = "factors by a softmax over all items, with an L2 penalty"
    options: ClassVar = {
        "factors": Option((64, 128), 128, 1024),
        "lambda": Option((0.03, 0.05, 0.1, 0.2), 0.05),
    }

    users: np.ndarray
    items: np.ndarray
    biases: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "MatrixFactorization":
        matrix, width = interactions.matrix[:-1], int(options["factors"])
        rng = np.random.default_rng(seed)
        shape = sum(matrix.shape), width
        counts = np.asarray(matrix.sum(axis=0), np.float64)
        first = rng.normal(0, 0.1, shape).ravel()
        biases = np.log(counts + 0.5)
        solution = minimize(
            loss_and_gradient,
            np.concatenate([first, biases - biases.mean()]),
            args=(matrix, width, options["lambda"]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 10},
        )
        users, items, biases = _split(solution.x, matrix.shape, width)
        return cls(
            users=users.astype(np.float32),
            items=items.astype(np.float32),
            biases=biases.astype(np.float32),
        )

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        rows = interactions.num_users + interactions.num_items
        # L-BFGS keeps ten pairs of what it optimises.
        return 8 * 30 * rows * int(options["factors"]) + 24 * _SCORES

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {
            "users": (num_users, None),
            "items": (num_items, None),
            "biases": (num_items,),
        }

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        return self.users[users] @ self.items.T + self.biases


def loss_and_gradient(
    values: np.ndarray, matrix: csr_array, width: int, penalty: float
) -> tuple[float, np.ndarray]:
    """Returns the loss, and its gradient.

    Args:
        values: The users' vectors, the items' vectors and the biases one
            after the other, float64 `(U * D + N * D + N,)`.
        matrix: 1 where a user has had an item, `(U, N)`.
        width: D.
        penalty: The λ of the loss.
    """
    gradient = np.empty_like(values)
    users, items, biases = _split(values, matrix.shape, width)
    of_users, of_items, of_biases = _split(gradient, matrix.shape, width)
    history_sizes = np.diff(matrix.indptr).astype(np.float64)
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    of_items[:] = 2 * penalty * counts[:, None] * items
    of_biases[:] = 0.0
    loss = penalty * (
        history_sizes @ np.square(users).sum(axis=1)
        + counts @ np.square(items).sum(axis=1)
    )
    block = max(1, _SCORES // max(1, len(items)))
    for start in range(0, len(users), block):
        part = slice(start, start + block)
        histories = matrix[part]
        scores = users[part].astype(np.float32) @ items.T.astype(
            np.float32
        ) + biases.astype(np.float32)  # (B, N)
        scores -= scores.max(axis=1, keepdims=True)
        rows = np.repeat(
            np.arange(histories.shape[0]), np.diff(histories.indptr)
        )
        own_scores = scores[rows, histories.indices]
        np.exp(scores, out=scores)
        totals = scores.sum(axis=1)
        loss -= float((own_scores - np.log(totals)[rows]).sum(dtype=np.float64))
        # Of a row: how many items it has had times the softmax, less them.
        scores *= (history_sizes[part] / totals)[:, None].astype(np.float32)
        scores[rows, histories.indices] -= 1
        of_users[part] = scores @ items.astype(np.float32)
        of_users[part] += 2 * penalty * history_sizes[part, None] * users[part]
        of_items += scores.T @ users[part].astype(np.float32)
        of_biases += scores.sum(axis=0)
    return loss, gradient


def _split(
    values: np.ndarray, shape: tuple[int, int], width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Views of the users' and the items' vectors and the biases."""
    users, items = shape
    ends = users * width, (users + items) * width
    return (
        values[: ends[0]].reshape(users, width),
        values[ends[0] : ends[1]].reshape(items, width),
        values[ends[1] :],
    )
