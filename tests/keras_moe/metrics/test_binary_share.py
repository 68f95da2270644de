import keras
import numpy as np
import pytest

from keras_moe.metrics import BinaryShare

# (rows, k, n): certain, the second selector not, certain, the first not.
SELECTORS = np.array(
    [
        [[0, 1, 0], [1, 0, 0]],
        [[0, 1, 0], [0.9, 0.1, 0]],
        [[0, 0, 1], [0, 0, 1]],
        [[0.5, 0, 0.5], [0, 0, 1]],
    ],
    "float32",
)


def result(*batches, **kwargs):
    metric = BinaryShare(**kwargs)
    for batch in batches:
        metric.update_state(*batch)
    return float(metric.result())


def test_by_hand():
    assert result([SELECTORS]) == 0.5
    assert result([SELECTORS[:3]]) == pytest.approx(2 / 3)
    assert result([SELECTORS[:1]], [SELECTORS[1:]]) == 0.5
    assert result([SELECTORS[0]]) == 1  # Of a static gate.
    assert result([SELECTORS.reshape(2, 2, 2, 3)]) == 0.5  # Tokens.


def test_padding_does_not_count():
    assert result([SELECTORS, np.array([1, 0, 1, 1])]) == pytest.approx(2 / 3)


def test_almost_is_not_binary():
    almost = SELECTORS[:1] * np.float32(1 - 1e-7)
    assert result([almost]) == 0
    assert result([np.full((1, 1, 2), np.nan)]) == 0


def test_a_selector_of_an_unreachable_code_has_chosen():
    assert result([np.zeros((1, 2, 3))]) == 1


def test_it_comes_back_from_its_config():
    metric = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(BinaryShare(name="share"))
    )
    assert (type(metric), metric.name) == (BinaryShare, "share")
