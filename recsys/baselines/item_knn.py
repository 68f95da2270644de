from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from recsys.baselines.interactions import Interactions
from recsys.baselines.option import Option
from recsys.baselines.option import Options
from recsys.baselines.retrieval_baseline import RetrievalBaseline
from recsys.baselines.retrieval_baseline import Shapes

_BLOCK = 1 << 23  # Similarities at a time, 64 MiB of them.


class ItemKNN(RetrievalBaseline):
    """Items that resemble those that a user has had.

        score(u, i) = Σ_{j ∈ N_k(i), u has had j} s(i, j)
        s(i, j)     = |U_i ∩ U_j| / sqrt(|U_i| |U_j|)

    with U_i the users who have had item i, and N_k(i) the k other items with
    the largest cosine s; of items with the same, the first in the order of
    their ids.

    References:
        Sarwar, Karypis, Konstan, Riedl. Item-based Collaborative Filtering
        Recommendation Algorithms. WWW 2001, sections 3.1.1 and 3.2. Deshpande
        and Karypis. Item-based Top-N Recommendation Algorithms. TOIS 2004.
    """

    about = "the nearest neighbours of what a user has had, by cosine"
    options: ClassVar = {
        "neighbours": Option((20, 50, 100, 200, 400), 100, 50_000)
    }

    starts: np.ndarray
    neighbours: np.ndarray
    similarities: np.ndarray

    @classmethod
    def fit(
        cls, interactions: Interactions, options: Options, seed: int = 0
    ) -> "ItemKNN":
        users, most = interactions.matrix, int(options["neighbours"])
        num_items = interactions.num_items
        sizes = np.maximum(users.sum(axis=0), 1).astype(np.float64)
        columns = users.T.tocsr().astype(np.float64)
        block = max(1, _BLOCK // max(1, num_items))
        starts, neighbours, similarities = [np.zeros(1, np.int64)], [], []
        for start in range(0, num_items, block):
            part = np.arange(start, min(start + block, num_items))
            dense = (columns[part] @ users).toarray()  # (block, N)
            # Quotients of integers: what is equal is equal to the bit.
            dense = np.sqrt(dense**2 / (sizes[part, None] * sizes))
            dense[np.arange(len(part)), part] = 0
            row, item = _largest(dense, most)
            starts.append(np.bincount(row, minlength=len(part)))
            neighbours.append(item)
            similarities.append(dense[row, item])
        return cls(
            starts=np.cumsum(np.concatenate(starts)),
            neighbours=np.concatenate([np.zeros(0, np.int64), *neighbours]),
            similarities=np.concatenate([np.zeros(0), *similarities]),
        )

    @classmethod
    def memory(cls, interactions: Interactions, options: Options) -> int:
        kept = min(int(options["neighbours"]), interactions.num_items)
        return 3 * 8 * _BLOCK + 2 * 16 * kept * interactions.num_items

    @classmethod
    def shapes(cls, num_users: int, num_items: int) -> Shapes:
        return {
            "starts": (num_items + 1,),
            "neighbours": (None,),
            "similarities": (None,),
        }

    def scores(self, users: np.ndarray, histories: csr_array) -> np.ndarray:
        num_items = len(self.starts) - 1
        near = csr_array(
            (self.similarities, self.neighbours, self.starts),
            shape=(num_items, num_items),
        )
        return (histories @ near.T).toarray()


def _largest(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of each row's largest positive values, row after row.

    Args:
        values: Array `(rows, N)`.
        most: How many of each row, at most.
    """
    order = np.argsort(-values, axis=1, kind="stable")[:, :most]
    there = np.take_along_axis(values, order, axis=1) > 0
    row, place = np.nonzero(there)
    return row, order[row, place]
