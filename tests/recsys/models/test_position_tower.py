"""The factors of positions, learned within a short log."""

import keras
import numpy as np
import pytest
from keras import ops

from recsys.models.position_tower import PositionTower

pytestmark = pytest.mark.once("torch")

SEEN = np.array([1.0, 0.65, 0.3])
RELEVANCE = 0.4


def test_hundred_steps_suffice(rng: np.random.Generator) -> None:
    """At the default learning rate: with one of 1 logit there are 0.1."""
    positions = rng.integers(0, 3, 10_000).astype(np.int32)
    clicks = rng.random(len(positions)) < RELEVANCE * SEEN[positions]
    tower = PositionTower(["click"], num_positions=3)
    inputs = keras.Input((), dtype="int32")
    model = keras.Model(inputs, RELEVANCE * tower(inputs)["click"])
    model.compile(keras.optimizers.Adam(0.001), "binary_crossentropy")
    model.fit(positions, clicks[:, None], batch_size=500, epochs=5, verbose=0)
    found = ops.convert_to_numpy(tower(np.arange(3))["click"])[:, 0]
    np.testing.assert_allclose(found, SEEN, atol=0.06)
