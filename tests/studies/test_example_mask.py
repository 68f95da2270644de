from typing import Any

import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from studies.example_mask import ExampleMask

pytestmark = pytest.mark.once("torch")


def masks(mask: ExampleMask, examples: np.ndarray, units: int) -> Any:
    ones = np.ones((len(examples), units), "float32")
    return to_numpy(mask(ones, examples.astype("int32")))


def reference(keep_rate: float, salt: int, examples: Any, units: int) -> Any:
    """The hash in NumPy's integers without a sign."""

    def mixed(x: Any) -> Any:
        x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
        return x ^ (x >> np.uint32(16))

    with np.errstate(over="ignore"):
        salted = np.uint32((salt * 0x7FEB352D) % 2**32)
        rows = mixed(examples.astype("uint32") + salted)
        steps = np.arange(units, dtype="uint32") * np.uint32(0x9E3779B9)
        bits = mixed(rows[:, None] + steps[None])
    return (bits >> np.uint32(8)) / 2**24 < np.float32(keep_rate)


def test_every_backend_draws_what_numpy_draws() -> None:
    examples = np.arange(3, 50_000, 997)
    for salt in (0, 1, 2):
        found = masks(ExampleMask(0.3, salt), examples, 40)
        np.testing.assert_array_equal(found, reference(0.3, salt, examples, 40))


def test_masks_are_independent_bernoulli_draws() -> None:
    found = masks(ExampleMask(0.3, 0), np.arange(3000), 64)
    # Four standard errors of means over 3,000 and 64 draws.
    assert abs(found.mean() - 0.3) < 4 * (0.21 / 3000 / 64) ** 0.5
    assert np.abs(found.mean(axis=0) - 0.3).max() < 4 * (0.21 / 3000) ** 0.5
    correlation = np.corrcoef(found, rowvar=False) - np.eye(64)
    assert np.abs(correlation).max() < 5 / 3000**0.5


def test_a_mask_is_its_examples_and_its_layers() -> None:
    examples = np.array([5, 7, 5])
    first = masks(ExampleMask(0.5, 0), examples, 100)
    np.testing.assert_array_equal(first[0], first[2])
    assert 0.3 < (first[0] != first[1]).mean() < 0.7
    second = masks(ExampleMask(0.5, 1), examples, 100)
    assert 0.3 < (first[0] != second[0]).mean() < 0.7


def test_the_units_for_all_are_always_active() -> None:
    found = masks(ExampleMask(0.1, 0, always_active=0.2), np.arange(500), 50)
    assert found[:, :10].all()
    assert abs(found[:, 10:].mean() - 0.1) < 0.02
