import keras
import numpy as np
from keras import ops

from recsys.features.target_attention import TargetAttention


def test_formula(rng: np.random.Generator) -> None:
    layer = TargetAttention(units=[5])
    rows = rng.normal(size=(4, 3, 2)).astype("float32")
    query = rng.normal(size=(4, 2)).astype("float32")
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    received = ops.convert_to_numpy(layer(rows, query, mask))
    w1, b1, w2, b2 = (ops.convert_to_numpy(w) for w in layer.weights)
    expected = np.zeros((4, 2))
    for row in range(4):
        for place in range(3):
            e, q = rows[row, place], query[row]
            hidden = np.concatenate([e, q, e - q, e * q]) @ w1 + b1
            weight = np.maximum(hidden, 0) @ w2 + b2
            expected[row] += mask[row, place] * weight * e
    np.testing.assert_allclose(received, expected, rtol=1e-5, atol=1e-6)


def test_what_is_masked_has_no_gradient_and_no_effect(
    rng: np.random.Generator,
) -> None:
    layer = TargetAttention()
    rows = rng.normal(size=(1, 3, 2)).astype("float32")
    query, mask = np.ones((1, 2), "float32"), np.array([[True, False, True]])
    other = rows.copy()
    other[0, 1] = np.nan
    np.testing.assert_array_equal(
        ops.convert_to_numpy(layer(rows, query, mask)),
        ops.convert_to_numpy(layer(other, query, mask)),
    )


def test_is_saved() -> None:
    layer = TargetAttention(units=[5, 4])
    restored = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(layer)
    )
    assert restored.units == [5, 4]
