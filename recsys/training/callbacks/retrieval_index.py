import keras
import numpy as np
from keras import ops

from recsys.models.two_tower import TwoTower

_BLOCK = 8192  # Items at a time.


class RetrievalIndex(keras.callbacks.Callback):
    """Brings the index of a model's items up to date after each epoch.

    Before the model is saved: what is saved can recommend.

    Args:
        ranker: The model that is trained, with retrieval.
    """

    def __init__(self, ranker: TwoTower) -> None:
        super().__init__()
        self.ranker = ranker

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        update_index(self.ranker)


def update_index(ranker: TwoTower) -> None:
    """Brings the index of a ranker with retrieval up to date.

    Args:
        ranker: The ranker.
    """
    retrieval = ranker.retrieval
    vectors = np.zeros((retrieval.num_items, retrieval.width), np.float32)
    for start in range(0, retrieval.num_items, _BLOCK):
        stop = min(start + _BLOCK, retrieval.num_items)
        items = retrieval.items(np.arange(start, stop) + 1)
        item_vectors = ops.stop_gradient(ranker.item_vectors(items))
        vectors[start:stop] = ops.convert_to_numpy(item_vectors)
    retrieval.update_index(vectors)
