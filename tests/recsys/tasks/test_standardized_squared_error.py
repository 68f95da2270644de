import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from recsys.tasks.standardized_squared_error import StandardizedSquaredError


def test_by_hand() -> None:
    """Errors of 2 and -1 scales; the last label is missing."""
    loss = StandardizedSquaredError(100.0, "mean_with_sample_weight")
    labels = np.array([[500.0], [400.0], [0.0]], np.float32)
    predictions = np.array([[300.0], [500.0], [900.0]], np.float32)
    known = np.array([1.0, 1.0, 0.0], np.float32)
    assert float(loss(labels, predictions, known)) == pytest.approx(2.5)


def test_the_size_of_labels_does_not_matter() -> None:
    labels = np.array([[1.0], [2.0], [4.0]], np.float32)
    predictions = np.array([[2.0], [0.0], [-3.0]], np.float32)
    expected = to_numpy(
        StandardizedSquaredError(1.0, None)(labels, predictions)
    )
    for unit in (1e-30, 1e3, 1e37):
        loss = StandardizedSquaredError(unit, None)
        received = loss(
            np.float32(unit) * labels, np.float32(unit) * predictions
        )
        np.testing.assert_allclose(to_numpy(received), expected, rtol=1e-5)


def test_serialisation() -> None:
    loss = StandardizedSquaredError(3.0, "mean_with_sample_weight")
    config = keras.saving.serialize_keras_object(loss)
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, StandardizedSquaredError)
    assert restored.get_config() == loss.get_config()
