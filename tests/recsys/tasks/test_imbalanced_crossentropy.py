import math

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from recsys.measuring.measure import trained_loss
from recsys.tasks import Binary
from recsys.tasks import RowRoles
from recsys.tasks.imbalanced_crossentropy import ImbalancedCrossentropy

LABELS = np.array([[1.0], [0.0], [1.0], [0.0]], np.float32)
SCORES = np.array([[0.9], [0.4], [0.2], [0.7]], np.float32)


def test_by_hand() -> None:
    """A 1 said to be one with 0.9, and a 0 with 0.4; the last is missing."""
    loss = ImbalancedCrossentropy(10.0, 2.0, "mean_with_sample_weight")
    known = np.array([1.0, 1.0, 0.0], np.float32)
    one = -10 * 0.1**2 * math.log(0.9)
    zero = -(0.4**2) * math.log(0.6)
    received = float(loss(LABELS[:3], SCORES[:3], known))
    assert received == pytest.approx((one + zero) / 2, rel=1e-5)


def test_a_weight_alone_repeats_the_ones() -> None:
    weighted = ImbalancedCrossentropy(3.0, reduction=None)
    received = to_numpy(weighted(LABELS, SCORES))
    plain = keras.losses.BinaryCrossentropy(reduction=None)(LABELS, SCORES)
    expected = to_numpy(plain) * np.array([3, 1, 3, 1])
    np.testing.assert_allclose(received, expected, rtol=1e-5)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_loss_is_that_of_keras(gamma: float) -> None:
    received = ImbalancedCrossentropy(gamma=gamma, reduction=None)
    expected = keras.losses.BinaryFocalCrossentropy(gamma=gamma, reduction=None)
    np.testing.assert_allclose(
        to_numpy(received(LABELS, SCORES)),
        to_numpy(expected(LABELS, SCORES)),
        rtol=1e-5,
    )


def test_certain_mistakes_have_a_finite_loss() -> None:
    loss = ImbalancedCrossentropy(2.0, 0.5)
    assert np.isfinite(float(loss(LABELS, 1 - LABELS)))
    assert float(loss(LABELS, LABELS)) == pytest.approx(0, abs=1e-6)


def test_serialisation() -> None:
    loss = ImbalancedCrossentropy(3.0, 2.0, "mean_with_sample_weight")
    config = keras.saving.serialize_keras_object(loss)
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, ImbalancedCrossentropy)
    assert restored.get_config() == loss.get_config()


def test_a_task_takes_it_where_it_has_to() -> None:
    plain = Binary().loss("sum")
    assert type(plain) is keras.losses.BinaryCrossentropy
    loss = Binary(pos_weight=4, focal=1.5).loss("sum")
    assert isinstance(loss, ImbalancedCrossentropy)
    assert (loss.pos_weight, loss.gamma, loss.reduction) == (4.0, 1.5, "sum")


def test_what_is_measured_beside_the_plain_metrics() -> None:
    labels, scores = LABELS[:, 0].astype(float), SCORES[:, 0].astype(float)
    weights = np.array([2.0, 1.0, 0.0, 3.0])
    kind, roles = Binary(pos_weight=4.0, focal=2.0), RowRoles(weights)
    metrics = kind.measure(labels, scores, roles=roles)
    loss = kind.loss("mean_with_sample_weight")
    expected = float(loss(LABELS, SCORES, weights.astype("float32")))
    optimized = metrics.pop("optimized_loss")
    assert optimized == pytest.approx(expected, rel=1e-5)
    assert metrics == Binary().measure(labels, scores, roles=roles)
    assert trained_loss(metrics | {"optimized_loss": optimized}) == optimized
    nothing = kind.measure(labels[:0], scores[:0])
    assert nothing["optimized_loss"] is nothing["loss"] is None
