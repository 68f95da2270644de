from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes

_BLOCK = 256  # Columns of the Gram matrix at a time.


class Ease(RetrievalBaseline):
    """A linear autoencoder of items, in closed form.

        min_B ‖X - X B‖² + λ ‖B‖²   with diag(B) = 0
        P = (XᵀX + λ I)⁻¹,   B_ij = -P_ij / P_jj for i ≠ j

    with X the users' items, and the score of a user X_u B. Computed in
    float64; B is kept in float32.

    References:
        Steck. Embarrassingly Shallow Autoencoders for Sparse Data. WWW 2019,
        equations 3 and 8.
    """

    about = "a linear model of the items a user has had, in closed form"
    options: ClassVar = {
        "lambda": Option((50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0), 250.0)
    }
    most_items = 50_000

    weights: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "Ease":
        inverse = _gram(interactions.matrix)
        diagonal = np.einsum("ii->i", inverse)
        diagonal += options["lambda"]
        _invert(inverse)
        weights = np.empty(inverse.shape, np.float32)
        for start in range(0, len(weights), _BLOCK):
            part = slice(start, start + _BLOCK)
            # The inverse is symmetric: rows of the upper triangle are enough.
            np.divide(-inverse[part], diagonal, out=weights[part])
        np.fill_diagonal(weights, 0)
        return cls(weights=weights)

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        # The Gram matrix, inverted in place, and the weights.
        return (8 + 4) * interactions.num_items**2

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {"weights": (num_items, num_items)}

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        scores = np.zeros(histories.shape, np.float32)
        items = np.unique(histories.indices)
        # Of a file, only the rows are read that these users need.
        for start in range(0, len(items), 4096):
            part = items[start : start + 4096]
            scores += histories[:, part] @ self.weights[part]
        return scores


def _gram(users: csr_array) -> npt.NDArray[np.float64]:
    """XᵀX, a float64 array `(N, N)` in Fortran's order."""
    columns = users.tocsc().astype(np.float64)
    num_items = users.shape[1]
    gram = np.empty((num_items, num_items), order="F")
    rows = columns.T.tocsr()
    for start in range(0, num_items, _BLOCK):
        part = slice(start, start + _BLOCK)
        gram[:, part] = (rows @ columns[:, part]).toarray()
    return gram


def _invert(matrix: npt.NDArray[np.float64]) -> None:
    """Inverts a symmetric positive definite matrix in its place.

    Args:
        matrix: Float64 array `(N, N)` in Fortran's order.
    """
    # On several threads, OpenBLAS (of SciPy 1.17) breaks memory from about
    # 18,000 items; the other half of the work is on one thread anyway.
    with threadpool_limits(1, "blas"):
        factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    if not failed:
        inverse, failed = lapack.dpotri(factor, lower=1, overwrite_c=1)
    assert not failed, "λ makes it positive definite"
    assert np.shares_memory(inverse, matrix), "what LAPACK overwrites"
    for start in range(0, len(matrix), _BLOCK):
        part = slice(start, start + _BLOCK)
        # What is above the diagonal is that below it.
        matrix[part, start + _BLOCK :] = matrix[start + _BLOCK :, part].T
        square = matrix[part, part]
        square[:] = np.tril(square) + np.tril(square, -1).T
