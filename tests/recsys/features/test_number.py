from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from recsys.data import DataError
from recsys.features import Number
from recsys.features import number
from tests.examples import examples

numbers = st.lists(st.floats(-1e6, 1e6), max_size=8)


@given(st.lists(numbers, min_size=1, max_size=5))
def test_moments_of_parts_are_those_of_the_whole(
    parts: list[list[float]],
) -> None:
    whole = np.concatenate([np.zeros(0), *parts])
    fitted = Number().fit([pd.Series(part, dtype="float64") for part in parts])
    mean, variance = (whole.mean(), whole.var()) if len(whole) else (0, 1)
    np.testing.assert_allclose(fitted.mean, mean, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(fitted.variance, variance, rtol=1e-9, atol=1e-3)


def _seen(train: list[list[float]], values: list[float], **options: Any) -> Any:
    """What a model sees of values, fitted to parts of a training split."""
    kind = Number(max_buckets=0, **options)
    fitted = kind.fit([pd.Series(part) for part in train])
    # A saved model has the state alone.
    fitted = kind.restore(fitted.get_state())
    encoded = fitted.encode(pd.Series(values, dtype="float64"))
    return np.asarray(fitted.vectors(encoded))[:, 0]


def test_of_a_constant_a_model_sees_the_difference() -> None:
    seen = _seen([[7.5] * 100], [7.5, 7.6, 8.5, np.nan])
    np.testing.assert_allclose(seen, [0, 0.1, 1, 0], atol=1e-6)


@given(
    st.floats(-1e30, 1e30),
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
)
def test_a_constant_has_scale_1_in_any_parts(
    number: float, sizes: list[int]
) -> None:
    fitted = Number().fit([pd.Series([number] * size) for size in sizes])
    assert fitted.variance == 0
    assert fitted.scale == 1


def test_the_logarithm_of_a_constant_has_scale_1() -> None:
    kind = Number(transform="log1p")
    fitted = kind.fit([pd.Series([6.7] * 1001), pd.Series([6.7])])
    assert fitted.scale == 1


def test_the_rounding_of_a_mean_is_no_deviation() -> None:
    # 1e5 times 0.1, summed one after the other, in a model of before.
    state = {"mean": 0.1, "variance": 1e-32}
    assert Number().restore(state).scale == 1


@pytest.mark.parametrize(
    ("train", "deviation"),
    [
        ([1e-6, 2e-6], 5e-7),
        ([1e-30, 3e-30], 1e-30),
        ([7.5, 7.500001], 5e-7),
        ([1e6, 1e6 + 0.25], 0.125),
        ([-1e20, 1e20], 1e20),
    ],
)
def test_a_small_or_large_deviation_is_kept(
    train: list[float], deviation: float
) -> None:
    fitted = Number().fit([pd.Series(train)])
    np.testing.assert_allclose(fitted.scale, deviation, rtol=1e-3)
    seen = _seen([train], train)
    assert seen[0] < 0 < seen[1]
    np.testing.assert_allclose(seen[1] - seen[0], 2, rtol=0.1)


@examples(100)
@given(
    st.floats(-1e12, 1e12),
    st.lists(st.integers(-3, 3), min_size=2, max_size=9),
    st.floats(1e-9, 1e3),
)
def test_no_row_of_the_training_split_is_far_from_the_mean(
    base: float, steps: list[int], step: float
) -> None:
    train = [base + step * count for count in steps]
    # A deviation of 1 at most every sqrt(rows); a float32 step beside it.
    assert np.abs(_seen([train], train)).max() <= len(train) ** 0.5 + 2


def test_of_subnormal_numbers_a_model_sees_nothing() -> None:
    np.testing.assert_allclose(_seen([[1e-40, 3e-40]], [1.0]), [1.0])


def test_a_logarithm_and_an_indicator() -> None:
    kind = Number(transform="log1p", indicator=True, max_buckets=0)
    column = pd.Series([0.0, np.e - 1, np.nan])
    fitted = kind.fit([column])
    seen = np.asarray(fitted.vectors(fitted.encode(column)))
    np.testing.assert_allclose(seen, [[-1, 0], [1, 0], [0, 1]], atol=1e-6)


def test_a_logarithm_of_a_negative_number() -> None:
    column = pd.Series([1.0, -0.5], name="price")
    with pytest.raises(DataError) as caught:
        Number(transform="log1p").check(column, "shop.csv")
    assert str(caught.value) == (
        "shop.csv, column 'price', data row 2 (counted from 1): expected a "
        "number of at least 0. Received: -0.5"
    )


@examples(100)
@given(
    st.lists(st.lists(st.integers(-50, 50)), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_buckets_share_the_different_numbers(
    parts: list[list[int]], max_buckets: int
) -> None:
    kind = Number(max_buckets=max_buckets)
    fitted = kind.fit([pd.Series(part, dtype="float64") for part in parts])
    distinct = sorted({number for part in parts for number in part})
    starts = [number for number in fitted.borders if number in distinct]
    assert starts == fitted.borders == sorted(set(starts))
    if len(distinct) < 2 or max_buckets == 1:
        assert fitted.num_rows is None
        return
    assert fitted.num_rows == min(max_buckets, len(distinct)) + 1
    values = ops.convert_to_tensor([*distinct, np.nan], "float32")
    *ids, missing = ops.convert_to_numpy(fitted.ids(values)).tolist()
    assert missing == 0
    assert ids == (1 + np.searchsorted(starts, distinct, "right")).tolist()
    sizes = np.bincount(ids)[1:]
    assert sizes.max() - sizes.min() <= 1


def test_a_model_from_before_has_no_buckets() -> None:
    fitted = Number().restore({"mean": 1.0, "variance": 4.0})
    assert fitted.num_rows is None
    seen = fitted.vectors(ops.convert_to_tensor([3.0]))
    np.testing.assert_allclose(ops.convert_to_numpy(seen), [[1.0]])


def test_a_continuous_column_is_not_held_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(number, "MOST", 4)
    parts = [
        pd.Series([1.0, 2.0, 3.0]),
        pd.Series([4.0, 5.0]),
        pd.Series([9.0]),
    ]
    assert Number().fit(parts).borders == [2.0, 3.0, 4.0, 5.0]
