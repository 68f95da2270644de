from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes

SWEEPS = 16  # Over the users and the items.
_BLOCK = 256  # Systems of equations at a time.


class Ials(RetrievalBaseline):
    """Factors by alternating least squares, all that nobody had included.

        L = Σ_{(u,i): u has had i} (⟨w_u, h_i⟩ - 1)² + α Σ_u Σ_i ⟨w_u, h_i⟩²
            + λ (Σ_u (|I_u| + α N) ‖w_u‖² + Σ_i (|U_i| + α U) ‖h_i‖²)

    with I_u the items that user u has had, U_i the users of item i, and
    16 sweeps. A user's vector is solved for from the items that the user has
    had, so that a history is all that has to be known. α is the weight of
    what a user has not had, the inverse of the confidence's α of Hu et al.

    References:
        Hu, Koren, Volinsky. Collaborative Filtering for Implicit Feedback
        Datasets. ICDM 2008, equations 3 to 5. Rendle, Krichene, Zhang, Koren.
        Revisiting the Performance of iALS on Item Recommendation Benchmarks.
        RecSys 2022, equations 2 to 4 and 6 with ν = 1.
    """

    about = "factors by alternating least squares for implicit feedback"
    options: ClassVar = {
        "factors": Option((64,), 64, 1024),
        "lambda": Option((0.001, 0.003, 0.01, 0.03), 0.003),
        "alpha": Option((0.03, 0.1, 0.3, 1.0), 0.1),
    }

    items: np.ndarray
    gram: np.ndarray
    alpha: np.ndarray
    penalty: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "Ials":
        matrix, factors = interactions.matrix[:-1], int(options["factors"])
        by_item = matrix.T.tocsr()
        alpha, penalty = options["alpha"], options["lambda"]
        rng = np.random.default_rng(seed)
        scale = 0.1 / np.sqrt(factors)
        items = rng.normal(0, scale, (matrix.shape[1], factors))
        for _ in range(SWEEPS):
            users = solve(matrix, items, alpha, penalty)
            items = solve(by_item, users, alpha, penalty)
        return cls(
            items=items,
            gram=items.T @ items,
            alpha=np.array(alpha),
            penalty=np.array(penalty),
        )

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        factors = int(options["factors"])
        rows = interactions.num_users + interactions.num_items
        return 8 * factors * (2 * rows + 3 * _BLOCK * factors)

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {
            "items": (num_items, None),
            "gram": (None, None),
            "alpha": (),
            "penalty": (),
        }

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        vectors = solve(
            histories,
            self.items,
            float(self.alpha),
            float(self.penalty),
            self.gram,
        )
        return vectors @ self.items.T


def solve(
    rows: csr_array,
    fixed: np.ndarray,
    alpha: float,
    penalty: float,
    gram: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the vectors that minimise the loss for those of the other side.

    Args:
        rows: 1 for each pair that is there, `(R, O)`.
        fixed: The vectors of the other side, float64 `(O, D)`.
        alpha: Weight of the pairs that are not there, and of all others.
        penalty: The λ of the loss.
        gram: `fixed.T @ fixed`, computed unless given.

    Returns:
        Float64 array `(R, D)`.
    """
    gram = fixed.T @ fixed if gram is None else gram
    width = fixed.shape[1]
    solved = np.empty((rows.shape[0], width))
    for start in range(0, rows.shape[0], _BLOCK):
        stop = min(start + _BLOCK, rows.shape[0])
        left = np.empty((stop - start, width, width))
        right = np.empty((stop - start, width, 1))
        for place, row in enumerate(range(start, stop)):
            history = rows.indices[rows.indptr[row] : rows.indptr[row + 1]]
            vectors = fixed[history]  # (history, D)
            left[place] = vectors.T @ vectors
            right[place, :, 0] = vectors.sum(axis=0)
            ridge = penalty * (len(history) + alpha * len(fixed))
            left[place].flat[:: width + 1] += ridge
        left += alpha * gram
        solved[start:stop] = np.linalg.solve(left, right)[:, :, 0]
    return solved
