"""Losses against their published formulas, row by row in float64."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from recsys.config.retrieval_losses import RETRIEVAL_LOSSES
from recsys.retrieval.losses import create_loss
from recsys.retrieval.losses import loss_class
from recsys.retrieval.losses import typed_loss_options
from recsys.retrieval.negatives import Candidates
from tests.examples import examples

NUM_ITEMS = 20


def log_sigmoid(score: np.ndarray) -> np.ndarray:
    return -np.log1p(np.exp(-score))


def softmax(own: float, others: np.ndarray) -> float:
    return float(np.log(np.exp([own, *others]).sum()) - own)


def gbce(own: float, others: np.ndarray) -> float:
    count = len(others)
    if count == 0:
        return float(-(1 - 0.75) * log_sigmoid(np.array(own)))
    rate = count / (NUM_ITEMS - 1)
    power = rate * (0.75 * (1 - 1 / rate) + 1 / rate)
    log_likelihood = power * log_sigmoid(np.array(own))
    log_likelihood += log_sigmoid(-others).sum()
    return float(-log_likelihood / (count + 1))


def bpr(own: float, others: np.ndarray) -> float:
    return float(-log_sigmoid(own - others).mean()) if len(others) else 0.0


def cosine_contrastive(own: float, others: np.ndarray) -> float:
    beyond = np.maximum(0, others - 0.9)
    return 1 - own + 150 * (float(beyond.mean()) if len(others) else 0.0)


REFERENCES: dict[str, Callable[[float, np.ndarray], float]] = {
    "softmax": softmax,
    "full-softmax": softmax,
    "sampled-softmax": softmax,
    "mixed-softmax": softmax,
    "gbce": gbce,
    "bpr": bpr,
    "cosine-contrastive": cosine_contrastive,
}


def test_every_loss_has_a_reference() -> None:
    assert REFERENCES.keys() == RETRIEVAL_LOSSES.keys()
    assert [loss_class(name).type for name in RETRIEVAL_LOSSES] == list(
        RETRIEVAL_LOSSES
    )


@pytest.mark.once("torch")
@pytest.mark.parametrize("name", RETRIEVAL_LOSSES)
def test_every_loss_gives_its_formula_and_its_source(name: str) -> None:
    text = loss_class(name).__doc__ or ""
    assert "\n        loss_i = " in text
    assert "\n    References:\n" in text


@pytest.mark.parametrize("name", RETRIEVAL_LOSSES)
@examples(25)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_formula(name: str, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    scores = (scale * rng.normal(size=(4, 7))).astype("float32")
    own = np.eye(4, 7, dtype=bool)
    counted = own | (rng.random((4, 7)) < 0.7)
    received = create_loss(name, {}).losses(
        Candidates(*map(ops.convert_to_tensor, (scores, own, counted))),
        NUM_ITEMS,
    )
    expected = [
        REFERENCES[name](
            float(row[mine].astype(float)[0]), row[there & ~mine].astype(float)
        )
        for row, mine, there in zip(scores, own, counted, strict=True)
    ]
    np.testing.assert_allclose(
        ops.convert_to_numpy(received), expected, rtol=1e-4, atol=1e-5
    )


def test_gbce_without_calibration_is_binary_cross_entropy() -> None:
    scores = np.array([[2.0, -1.0, 0.5]], "float32")
    own = np.array([[True, False, False]])
    received = create_loss("gbce", {"calibration": 0.0}).losses(
        Candidates(
            *map(ops.convert_to_tensor, (scores, own, np.ones_like(own)))
        ),
        NUM_ITEMS,
    )
    labels = own.astype(float)
    chances = 1 / (1 + np.exp(-scores.astype(float)))
    expected = -(
        labels * np.log(chances) + (1 - labels) * np.log(1 - chances)
    ).mean()
    np.testing.assert_allclose(
        ops.convert_to_numpy(received), expected, rtol=1e-5
    )


@pytest.mark.parametrize("name", RETRIEVAL_LOSSES)
def test_a_declaration_makes_the_same_loss(name: str) -> None:
    loss = create_loss(name, {"num_negatives": 7, "hard_negatives": 3})
    options = dict(loss.declaration)
    assert create_loss(options.pop("type"), options) == loss


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("gbce", {"calibration": "x"}, "calibration must be of type float"),
        ("gbce", {"calibration": 1.5}, "at most 1 at calibration"),
        ("gbce", {"calibation": 0.5}, "did you mean 'calibration'"),
        ("softmax", {"temperature": 0.0}, "above 0 at temperature"),
        ("softmax", {"num_negatives": 0}, "at least 1 at num_negatives"),
        ("cosine-contrastive", {"temperature": 0.1}, "must be left out"),
        ("cosine-contrastive", {"margin": "2"}, "at most 1 at margin"),
    ],
)
def test_wrong_options(
    name: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        typed_loss_options(name, options)
    assert f"`retrieval_loss_options` of {name}" in str(error.value)
