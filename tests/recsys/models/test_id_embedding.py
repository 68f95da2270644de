import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from recsys.models.id_embedding import IdEmbedding


def test_looks_rows_up() -> None:
    layer = IdEmbedding(3, 2, unknown_rate=0.5)
    outputs = to_numpy(layer(np.array([2, 0])))
    table = to_numpy(layer.embeddings)
    assert (outputs == table[[2, 0]]).all()


def test_replaces_a_share_of_the_ids_while_training() -> None:
    layer = IdEmbedding(3, 1, unknown_rate=0.25)
    layer.build((None,))
    layer.set_weights([np.array([[-1.0], [1.0], [1.0]])])
    ids = np.ones(4000, np.int32)
    first = to_numpy(layer(ids, training=True))[:, 0]
    assert np.mean(first == -1) == pytest.approx(0.25, abs=0.03)
    assert (first != to_numpy(layer(ids, training=True))[:, 0]).any()


def test_rate_outside_its_bounds() -> None:
    with pytest.raises(ValueError, match="`unknown_rate` must be in"):
        IdEmbedding(3, 2, unknown_rate=1.0)
