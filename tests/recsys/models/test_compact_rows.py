"""Rows of tables in fewer bytes, by hand and by property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recsys.errors import ExportError
from recsys.models.compact_rows import CompactRows
from tests.examples import examples

FLOATS = st.floats(-(2.0**99), 2.0**99, width=32)


def test_rows_by_hand() -> None:
    table = np.array([[127, -63.4, 0.4], [0, 0, 0], [-2, 1, 0.5]], np.float32)
    rows = CompactRows.of(table, "int8")
    assert rows.values.dtype == np.int8
    np.testing.assert_array_equal(
        rows.values, [[127, -63, 0], [0, 0, 0], [-127, 64, 32]]
    )
    assert rows.scales is not None
    np.testing.assert_allclose(rows.scales, [1, 0, 2 / 127], rtol=1e-7)
    np.testing.assert_allclose(
        rows.floats(),
        [[127, -63, 0], [0, 0, 0], [-2, 128 / 127, 64 / 127]],
        rtol=1e-7,
    )


@pytest.mark.parametrize(("width", "times"), [(8, 2.67), (64, 3.76), (76, 3.8)])
def test_a_row_takes_its_width_and_4_bytes(width: int, times: float) -> None:
    table = np.ones((5, width), np.float32)
    assert CompactRows.of(table, "int8").nbytes == 5 * (width + 4)
    assert CompactRows.of(table, "float16").nbytes == 5 * 2 * width
    assert 4 * width / (width + 4) == pytest.approx(times, abs=0.01)


@examples(50)
@given(
    arrays(
        np.float32,
        st.tuples(st.integers(1, 5), st.integers(1, 9)),
        elements=FLOATS,
    )
)
def test_no_number_is_further_than_half_a_scale(table: np.ndarray) -> None:
    rows = CompactRows.of(table, "int8")
    assert rows.scales is not None
    errors = np.abs(rows.floats().astype(float) - table)
    largest = np.abs(table.astype(float)).max(axis=1, keepdims=True)
    # In float32, whose smallest numbers are rounded, too.
    assert (errors <= largest / 127 * (0.5 + 1e-4) + 127 * 2e-45).all()


def test_rounding_again_changes_nothing() -> None:
    table = np.random.default_rng(0).normal(size=(50, 16)).astype(np.float32)
    once = CompactRows.of(table, "int8")
    again = CompactRows.of(once.floats(), "int8")
    np.testing.assert_array_equal(again.values, once.values)


@pytest.mark.parametrize("stored", ["int8", "float16"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(stored: str, number: float) -> None:
    with pytest.raises(ExportError, match=f"Tables in {stored} must have"):
        CompactRows.of(np.array([[1, number]], np.float32), stored)


def test_what_float16_cannot_hold_is_refused() -> None:
    with pytest.raises(ExportError, match=r"at most 65504\. Received: 70000"):
        CompactRows.of(np.array([[7e4]], np.float32), "float16")
