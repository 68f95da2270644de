"""Calibrations, fitted by NumPy and scikit-learn, applied by Keras."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops
from pydantic import ValidationError
from scipy.optimize import minimize
from scipy.special import expit
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from recsys.metrics import ScoredRows
from recsys.metrics import ece
from recsys.models.calibration.calibration import CALIBRATORS
from recsys.models.calibration.calibration import Calibration
from tests.examples import examples

pytestmark = pytest.mark.traced_once("tensorflow")

METHODS = list(CALIBRATORS)


def applied(
    calibration: Calibration,
    probabilities: np.ndarray,
    codes: np.ndarray | None = None,
) -> np.ndarray:
    inputs = {} if codes is None else {"page": ops.convert_to_tensor(codes)}
    column = ops.convert_to_tensor(probabilities[:, None].astype("float32"))
    return ops.convert_to_numpy(calibration(column, inputs))[:, 0]


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Labels that come less often than predicted, and weights."""
    rng = np.random.default_rng(seed)
    probabilities = rng.uniform(0.02, 0.98, count)
    labels = rng.uniform(size=count) < probabilities**2
    return labels * 1.0, probabilities, rng.uniform(0.5, 2, count)


def pooled(values: np.ndarray, weights: np.ndarray) -> list[list[float]]:
    """Adjacent violators pooled: `[value, weight, rows]` of each block."""
    blocks: list[list[float]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            (a, v, m), (b, w, n) = blocks[-2:]
            blocks[-2:] = [[(a * v + b * w) / (v + w), v + w, m + n]]
    return blocks


def test_isotonic_by_hand() -> None:
    labels = np.array([0.0, 1, 0, 1])
    probabilities = np.array([0.1, 0.3, 0.5, 0.9])
    found = Calibration.fit("isotonic", labels, probabilities, np.ones(4))
    # Blocks: 0; the mean of 1 and 0 at 0.4; 1. 4 rows keep 1/6 from 0 and 1.
    points = np.array([0.0, 0.1, 0.25, 0.4, 0.65, 0.9, 1.0])
    wanted = [1 / 6, 1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6, 5 / 6]
    np.testing.assert_allclose(applied(found, points), wanted, atol=1e-6)


def test_isotonic_has_the_blocks_of_pooled_violators() -> None:
    labels, probabilities, weights = rows(300)
    (parameters,) = Calibration.fit(
        "isotonic", labels, probabilities, weights
    ).parameters
    order = np.argsort(probabilities)
    sorted_rows = labels[order], probabilities[order], weights[order]
    places, values, start = [], [], 0
    for value, _, count in pooled(sorted_rows[0], sorted_rows[2]):
        block = slice(start, start + int(count))
        start = block.stop
        places.append(
            np.average(sorted_rows[1][block], None, sorted_rows[2][block])
        )
        values.append(value)
    least = 1 / (weights.sum() + 2)
    np.testing.assert_allclose(
        parameters,
        [*places, *np.clip(values, least, 1 - least)],
        atol=1e-6,
    )
    reference = IsotonicRegression().fit(probabilities, labels, weights)
    inside = applied(
        Calibration(method="isotonic", parameters=[parameters]), probabilities
    )
    assert np.abs(inside - reference.predict(probabilities)).mean() < 0.05


@pytest.mark.parametrize("method", ["platt", "beta"])
def test_logistic_methods_minimize_the_loss(method: str) -> None:
    labels, probabilities, weights = rows(400)
    positive = weights[labels == 1].sum()
    negative = weights[labels == 0].sum()
    targets = np.where(
        labels == 1, (positive + 1) / (positive + 2), 1 / (negative + 2)
    )
    columns = np.stack([np.log(probabilities), -np.log1p(-probabilities)])
    if method == "platt":
        columns = logit(probabilities)[None]

    def loss(parameters: np.ndarray) -> float:
        scores = parameters[:-1] @ columns + parameters[-1]
        return float(weights @ (np.logaddexp(0, scores) - targets * scores))

    wanted = minimize(loss, np.ones(len(columns) + 1), tol=1e-12).x
    found = Calibration.fit(method, labels, probabilities, weights)
    np.testing.assert_allclose(found.parameters[0], wanted, atol=2e-4)
    np.testing.assert_allclose(
        applied(found, probabilities),
        expit(wanted[:-1] @ columns + wanted[-1]),
        atol=1e-4,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
def test_the_error_on_other_rows_becomes_small(method: str) -> None:
    found = Calibration.fit(method, *rows(3000))
    labels, probabilities, _ = rows(3000, seed=1)
    before = ece(ScoredRows.of(labels, probabilities))
    after = ece(ScoredRows.of(labels, applied(found, probabilities)))
    assert before is not None
    assert before > 0.15
    assert after is not None
    assert after < 0.04


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
@given(data=st.data())
@examples(30)
def test_never_decreases(method: str, data: st.DataObject) -> None:
    shares = st.floats(0, 1, width=32)
    given_rows = data.draw(
        st.lists(st.tuples(shares, st.booleans()), min_size=2, max_size=20)
    )
    labels = np.array([label for _, label in given_rows], float)
    labels[:2] = 0, 1
    probabilities = np.array([p for p, _ in given_rows])
    found = Calibration.fit(method, labels, probabilities, np.ones(len(labels)))
    calibrated = applied(found, np.linspace(0, 1, 101))
    assert (np.diff(calibrated) >= -1e-6).all()
    assert ((calibrated >= 0) & (calibrated <= 1)).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
def test_a_reversed_order_becomes_a_constant(method: str) -> None:
    labels = np.repeat([1.0, 0.0], 50)
    found = Calibration.fit(
        method, labels, np.linspace(0, 1, 100), np.ones(100)
    )
    np.testing.assert_allclose(
        applied(found, np.array([0.0, 0.4, 1.0])), 0.5, atol=1e-6
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
def test_values_of_a_feature_have_their_own(method: str) -> None:
    labels, probabilities, weights = rows(600)
    codes = np.repeat([0, 2, 5], [300, 250, 50])
    labels[codes == 5] = 1.0
    found = Calibration.fit(
        method, labels, probabilities, weights, "page", codes, min_rows=40
    )
    assert found.numbers == [0, 2]  # 5 has one label alone.
    points = np.linspace(0, 1, 21)
    for code, chosen in (
        (0, codes == 0),
        (2, codes == 2),
        (1, codes < 9),
        (9, codes < 9),
    ):
        own = Calibration.fit(
            method, labels[chosen], probabilities[chosen], weights[chosen]
        )
        np.testing.assert_allclose(
            applied(found, points, np.full(21, code, np.int32)),
            applied(own, points),
            atol=1e-6,
        )
    few = Calibration.fit(
        method, labels, probabilities, weights, "page", codes, min_rows=290
    )
    assert few.numbers == [0]


@pytest.mark.once("torch")
def test_a_file_must_have_parameters_that_fit() -> None:
    good = {"method": "platt", "parameters": [[1.0, 0.0]]}
    Calibration.model_validate(good)
    for change in (
        {"method": "spline"},
        {"parameters": []},
        {"parameters": [[1.0]]},
        {"parameters": [[1.0, float("nan")]]},
        {"numbers": [0], "parameters": [[1.0, 0.0]] * 2},
        {"numbers": [1, 0], "parameters": [[1.0, 0.0]] * 3, "feature": "x"},
        {"numbers": [1], "feature": "x"},
    ):
        with pytest.raises(ValidationError):
            Calibration.model_validate({**good, **change})


@pytest.mark.once("torch")
def test_keras_reads_no_state() -> None:
    found = Calibration(method="platt", parameters=[[1.0, 0.0]])
    halves = keras.ops.convert_to_tensor([[0.5]], "float32")
    assert float(found(halves, {})[0, 0]) == pytest.approx(0.5)
