"""What has changed since training: what is broken, and what is chance."""

import numpy as np
import pandas as pd
import pytest

from recsys.features.id import Id
from recsys.features.number import Number
from recsys.features.vector import Vector
from recsys.measuring.promotion.drift_checks import alike
from recsys.measuring.promotion.drift_checks import drift_checks
from recsys.measuring.promotion.drift_checks import unknown_checks
from recsys.measuring.promotion.latency_check import latency_check
from recsys.measuring.promotion.rules import PromotionRules


def test_rare_labels_that_vanish() -> None:
    """The index does not see them: 1 % of all rows are little."""
    before = pd.Series(np.arange(10_000) % 100 == 0, dtype=object)
    gone = pd.Series([False] * 10_000, dtype=object)
    few = gone[:20]
    (check,) = drift_checks({"y": before}, {"y": gone}, PromotionRules())
    assert check.value < 0.25
    assert not check.passed
    assert check.details is not None
    assert check.details["constant"]
    (check,) = drift_checks({"y": before}, {"y": few}, PromotionRules())
    assert check.passed  # Twenty rows say nothing.
    (check,) = drift_checks({"y": gone}, {"y": gone}, PromotionRules())
    assert check.passed  # Nothing but that was there before.


def test_ids_above_two_to_the_53_are_told_apart() -> None:
    ids = pd.Series(2**53 + np.arange(4000) % 4)
    moved = pd.Series(2**53 + np.arange(4000) % 4 // 2)
    texts = ids.astype(str)
    for before, after, passed in (
        (ids, ids, True),
        (ids, moved, False),
        (texts, moved.astype(str), False),
    ):
        (check,) = drift_checks({"i": before}, {"i": after}, PromotionRules())
        assert check.passed == passed


def test_vectors_are_compared_by_their_numbers() -> None:
    """As lists they would be values that each occur once."""
    generator = np.random.default_rng(0)
    before = pd.Series([*generator.normal(size=(500, 3))])
    for factor, passed in ((1.0, True), (10.0, False)):
        after = pd.Series([*(factor * generator.normal(size=(500, 3)))])
        first, second = alike(Vector(size=3), [before, after])
        assert len(first) == 1500
        (check,) = drift_checks({"v": first}, {"v": second}, PromotionRules())
        assert check.passed == passed


def test_ids_that_training_lacks() -> None:
    """Beyond what the validation split lacks already."""
    known = pd.DataFrame({"item": 2**53 + np.arange(100), "age": 1.0})
    usual = pd.DataFrame({"item": 2**53 + np.arange(10, 110), "age": 1.0})
    texts = usual["item"].astype(str)
    for column, passed in (
        (usual["item"], True),
        (texts, True),  # The same ids.
        ("x" + texts, False),
    ):
        (check,) = unknown_checks(
            {"item": Id(), "age": Number()},
            {"train": known, "validation": usual},
            pd.DataFrame({"item": column, "age": 1.0}),
            PromotionRules(),
        )
        assert (check.name, check.passed) == ("unknown ids of item", passed)
        assert check.value == pytest.approx(0.0 if passed else 0.9)


def test_latency_is_refused_only_if_it_is_longer_beyond_noise() -> None:
    noise = np.exp(np.random.default_rng(0).normal(scale=0.1, size=(40, 2)))
    for factor, passed in ((1.0, True), (1.5, True), (1.7, False)):
        check = latency_check(noise * [1.0, factor], 64, PromotionRules())
        assert check.passed == passed
        assert check.details is not None
        median = 1000 * factor * np.median(noise[:, 1])
        assert check.details["new"] == pytest.approx(median)
