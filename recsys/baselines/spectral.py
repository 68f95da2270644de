from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse import diags_array
from sklearn.utils.extmath import randomized_svd

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes

_ITERATIONS = 4  # Of the randomized SVD.


class Spectral(RetrievalBaseline):
    """A filter of what a user has had on the graph of users and items.

        R̃        = D_U^-a R D_I^-b / s₁
        score(u) = R_u D_I^-b [R̃ᵀR̃ + V diag(h(x) - x) Vᵀ] D_I^b
        h(x)     = (x + l) (1 - c x)

    with R the users' items, D_U and D_I how many items and users each has,
    s₁ what makes the largest singular value 1, V the right singular vectors
    of the largest ones, `factors` of them, and x their squares. R̃ᵀR̃ alone
    takes items by their common users. l, the option `low-pass`, adds to its
    strongest components; c, `sharpening`, takes from the very strongest of
    them, which are much the same for everybody. The exponents a and b are ½ in
    the published models; below, users with many items, or items with many
    users, count more. The SVD is randomized, in float32.

    References:
        Shen, Wu, Zhang, Shan, Zhang, Letaief, Li. How Powerful is Graph
        Convolution for Recommendation? CIKM 2021, for the sum of R̃ᵀR̃ and an
        ideal low-pass filter. Choi, Hong, Park, Cho. Blurring-Sharpening
        Process Models for Collaborative Filtering. SIGIR 2023, for the
        sharpening, here of the strongest components only. Halko, Martinsson,
        Tropp. Finding Structure with Randomness. SIAM Review 2011.
    """

    about = "a low-pass filter on the graph of users and items, by an SVD"
    options: ClassVar = {
        "factors": Option((64, 512), 512, 4096),
        "item-exponent": Option((0.3, 0.4, 0.5), 0.4, 1.0),
        "user-exponent": Option((0.25, 0.35, 0.5), 0.35, 1.0),
        "low-pass": Option((0.1, 0.2, 0.4), 0.2, 1e3),
        "sharpening": Option((0.5, 0.8, 1.1), 0.8, 1e3),
    }

    starts: np.ndarray
    items: np.ndarray
    weights: np.ndarray
    vectors: np.ndarray
    gains: np.ndarray
    scales: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "Spectral":
        matrix = interactions.matrix[:-1]
        of_users = _powers(matrix.sum(axis=1), options["user-exponent"])
        of_items = _powers(matrix.sum(axis=0), options["item-exponent"])
        scaled = csr_array(
            diags_array(1 / of_users) @ matrix @ diags_array(1 / of_items),
            dtype=np.float32,
        )
        width = min(int(options["factors"]), *scaled.shape)
        _, values, vectors = randomized_svd(
            scaled,
            width,
            n_oversamples=10 + width // 16,
            n_iter=_ITERATIONS,
            power_iteration_normalizer="QR",
            random_state=seed,
        )
        largest = max(float(values[0]), 1e-30)  # 0 where nobody had anything.
        x = (values / largest) ** 2
        filtered = (x + options["low-pass"]) * (1 - options["sharpening"] * x)
        return cls(
            starts=scaled.indptr,
            items=scaled.indices,
            weights=scaled.data / np.float32(largest),
            vectors=np.ascontiguousarray(vectors.T, np.float32),
            gains=(filtered - x).astype(np.float32),
            scales=of_items,
        )

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        rows = interactions.num_users + interactions.num_items
        # Some matrices of the SVD at once, and what it has looked for beside.
        return 4 * 4 * rows * (10 + int(options["factors"]) * 17 // 16)

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {
            "starts": (num_users + 1,),
            "items": (None,),
            "weights": (None,),
            "vectors": (num_items, None),
            "gains": (None,),
            "scales": (num_items,),
        }

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        scaled = csr_array(
            (self.weights, self.items, self.starts),
            shape=(len(self.starts) - 1, len(self.scales)),
        )
        signal = (histories @ diags_array(1 / self.scales)).tocsr()  # (B, N)
        scores = (signal @ self.vectors * self.gains) @ self.vectors.T
        scores += (signal @ scaled.T @ scaled).toarray()
        return scores * self.scales


def _powers(counts: np.ndarray, exponent: float) -> np.ndarray:
    """Powers of counts, float32; 1 for those of nothing."""
    powers: np.ndarray = np.maximum(counts, 1).astype(np.float32) ** exponent
    return powers
