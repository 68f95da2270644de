from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from recsys.data.streaming.frames import frames_of
from recsys.data.streaming.pool_reader import Arrays
from recsys.models.row_encoder import RowEncoder
from recsys.models.two_tower import TwoTower
from recsys.retrieval.query_role import EncodedColumns
from recsys.retrieval.retrieval import ROW_ITEMS
from recsys.retrieval.retrieval import ROW_QUERIES
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.retrieval.user_queries import FEWEST_USERS
from recsys.retrieval.user_queries import MOST_ROWS
from recsys.retrieval.user_queries import user_queries
from recsys.training.shuffled_batches import ShuffledBatches

if TYPE_CHECKING:
    import pandas as pd

    from recsys.data.streaming.split_stream import SplitStream

# Of many users, steps are longer, so that an epoch has about as many of them.
_MOST_USERS = 512
_STEPS = 256


class UserBatches(ShuffledBatches):
    """Batches of users with all their rows.

    Each has room for the rows of the users with the most of them, so that all
    have one shape.

    Args:
        weights: How much each user's rows with an item count, float32
            `(U + 1, N + 1)`; what is unknown comes first, and is left out.
        queries: What is known of users, by feature `(U + 1, ...)`.
        outputs: The tasks, which the batches say nothing of.
        seed: Seed of the order.
        batch_size: Users in a batch; 32 for up to 8,447 users unless given, a
            256th of more, and at most 512.

    Example:
    >>> weights = csr_array([[0.0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 2]])
    >>> queries = {"user": np.arange(4, dtype=np.int32)}
    >>> batches = UserBatches(weights, queries, ["like"], 0, batch_size=2)
    >>> ((inputs, labels, weights),) = batches
    >>> [values.tolist() for values in inputs.values()]
    [[1, 3], [0, 0, 1], [1, 2, 2], [1.0, 1.0, 2.0]]
    """

    def __init__(
        self,
        weights: csr_array,
        queries: Mapping[str, np.ndarray],
        outputs: list[str],
        seed: int,
        batch_size: int | None = None,
    ) -> None:
        counts = np.diff(weights.indptr)
        self.users = np.flatnonzero(counts[1:]) + 1
        count = len(self.users)
        size = batch_size or min(
            max(count // _STEPS, FEWEST_USERS), _MOST_USERS
        )
        super().__init__(count, size, seed)
        self.weights = weights
        self.queries = dict(queries)
        self.outputs = outputs
        most = np.sort(counts[self.users])[-self.batch_size :]
        self.room = int(most.sum())

    def __getitem__(self, index: int) -> Arrays:
        users = self.users[self.places(index)]
        items = self.weights[users]
        counts = np.diff(items.indptr)
        rows = {
            ROW_QUERIES: np.repeat(np.arange(len(users)), counts),
            ROW_ITEMS: items.indices,
            ROW_WEIGHTS: items.data,
        }
        inputs = {name: values[users] for name, values in self.queries.items()}
        for name, values in rows.items():
            # What is left counts nothing, of an item that there is.
            padded = np.full(self.room, name == ROW_ITEMS, _DTYPES[name])
            padded[: len(values)] = values
            inputs[name] = padded
        nothing = np.zeros(len(users), np.float32)
        return (
            inputs,
            dict.fromkeys(self.outputs, nothing[:, None]),
            dict.fromkeys(self.outputs, nothing),
        )


_DTYPES = {
    ROW_QUERIES: np.int32,
    ROW_ITEMS: np.int32,
    ROW_WEIGHTS: np.float32,
}


def create_user_batches(
    ranker: TwoTower,
    split: "pd.DataFrame | SplitStream",
    encoder: RowEncoder,
    seed: int,
) -> UserBatches | None:
    """Creates the batches that towers are trained on by themselves.

    Args:
        ranker: The model.
        split: The training split.
        encoder: Encodes its rows, with how much they count for retrieval.
        seed: Seed of the order.

    Returns:
        The batches; `None` where the loss of the towers is not of rows that
        share queries, queries are not of the user alone, no user has a row
        that counts, or there are too many rows to have all in memory.
    """
    retrieval = ranker.retrieval
    user = retrieval.query_id
    if user is None or not retrieval.shares_queries or len(split) > MOST_ROWS:
        return None
    columns = EncodedColumns(split, ranker.fitted)
    of_users = [name for name in ranker.query_names if name != user]
    queries = user_queries(columns, user, of_users)
    if queries is None:
        return None
    parts = [
        _counting(encoder(frame)[0], user, retrieval.item)
        for frame in frames_of(split)
    ]
    users, items, values = map(np.concatenate, zip(*parts, strict=True))
    if not len(values):
        return None
    shape = len(queries[user]), retrieval.num_items + 1
    weights = csr_array((values, (users, items)), shape=shape)
    weights.sum_duplicates()
    return UserBatches(weights, queries, list(ranker.tasks), seed)


def _counting(
    inputs: Mapping[str, np.ndarray], user: str, item: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users, items and weights of the rows that count, of known ones."""
    users, items, weights = (inputs[name] for name in (user, item, ROW_WEIGHTS))
    counting = (weights > 0) & (users > 0) & (items > 0)
    return users[counting], items[counting], weights[counting]
