import numpy as np
from scipy.sparse import csr_array

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes


class Popular(RetrievalBaseline):
    """The items that the most rows have, the same for everybody.

    score(u, i) = Σ_rows weight [item = i]
    """

    about = "what the most rows have, the same for everybody"

    counts: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "Popular":
        return cls(counts=interactions.counts)

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {"counts": (num_items,)}

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        return np.repeat(self.counts[None], len(users), axis=0)
