from typing import Any

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops import ragged_dot
from tests.examples import examples
from tests.gradients import gradient

GROUPS, INPUTS, UNITS = 3, 4, 5


def arrays(num_rows: int, dtype: str = "float32") -> tuple[Any, Any]:
    rng = np.random.default_rng(num_rows)
    rows = rng.normal(size=(num_rows, INPUTS)).astype("float32")
    kernels = rng.normal(size=(GROUPS, INPUTS, UNITS)).astype("float32")
    cast = keras.ops.cast
    return cast(rows, dtype), cast(kernels, dtype)


def reference(rows: np.ndarray, kernels: np.ndarray, sizes: list[int]) -> Any:
    """The definition of `jax.lax.ragged_dot`."""
    products = np.zeros((len(rows), kernels.shape[2]))
    start = 0
    for kernel, size in zip(kernels, sizes, strict=True):
        products[start : start + size] = rows[start : start + size] @ kernel
        start += size
    return products


def test_rows_are_multiplied_by_the_matrix_of_their_group() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "float32")
    kernels = np.array([[[1.0], [10.0]], [[100.0], [0.0]]], "float32")
    # 1 + 20, 3 * 100, and a row behind the groups.
    product = ragged_dot(rows, kernels, np.array([1, 1], "int32"))
    assert to_numpy(product).tolist() == [[21.0], [300.0], [0.0]]


@examples(30)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=GROUPS, max_size=GROUPS),
    behind=st.integers(0, 3),
)
def test_it_is_the_definition_gradients_included(
    sizes: list[int], behind: int
) -> None:
    num_rows = sum(sizes) + behind
    rows, kernels = map(to_numpy, arrays(num_rows))
    group_sizes = np.array(sizes, "int32")
    product = to_numpy(ragged_dot(rows, kernels, group_sizes))
    np.testing.assert_allclose(
        product, reference(rows, kernels, sizes), rtol=1e-4, atol=1e-5
    )
    upstream = np.random.default_rng(1).normal(size=product.shape)
    upstream = upstream.astype("float32")

    def weighted(rows: Any, kernels: Any) -> Any:
        product = ragged_dot(rows, kernels, group_sizes)
        return keras.ops.sum(keras.ops.multiply(product, upstream))

    of_rows, of_kernels = gradient(weighted, rows, kernels)
    # Linear in both: differences over a step of 1 are exact.
    rows, kernels = rows.astype("float64"), kernels.astype("float64")
    for array, actual in ((rows, of_rows), (kernels, of_kernels)):
        expected = np.zeros(array.shape)
        for place in np.ndindex(array.shape):
            value = array[place]
            array[place] = value + 0.5
            above = (reference(rows, kernels, sizes) * upstream).sum()
            array[place] = value - 0.5
            below = (reference(rows, kernels, sizes) * upstream).sum()
            array[place] = value
            expected[place] = above - below
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_it_computes_in_the_dtype_of_its_arguments(dtype: str) -> None:
    rows, kernels = arrays(6, dtype)
    product = ragged_dot(rows, kernels, np.array([3, 0, 2], "int32"))
    assert keras.backend.standardize_dtype(product.dtype) == dtype
    rows, kernels, product = (
        to_numpy(keras.ops.cast(x, "float32")) for x in (rows, kernels, product)
    )
    epsilon = {"float32": 1e-6, "bfloat16": 2**-7, "float16": 2**-10}[dtype]
    np.testing.assert_allclose(
        product,
        reference(rows, kernels, [3, 0, 2]),
        rtol=4 * epsilon,
        atol=8 * epsilon,
    )


def test_different_dtypes_meet_in_their_common_one() -> None:
    rows, _ = arrays(2, "bfloat16")
    _, kernels = arrays(2)
    product = ragged_dot(rows, kernels, np.array([1, 0, 1], "int32"))
    assert keras.backend.standardize_dtype(product.dtype) == "float32"
    symbol = ragged_dot(
        keras.KerasTensor((2, INPUTS), dtype="bfloat16"),
        kernels,
        np.array([1, 0, 1], "int32"),
    )
    assert symbol.dtype == "float32"


def test_nan_stays_in_its_row_and_its_group() -> None:
    rows, kernels = map(to_numpy, arrays(12))
    rows = np.array(rows)
    rows[[2, 9, 10, 11]] = np.nan  # In the first group, and behind the last.
    sizes = np.array([4, 2, 3], "int32")
    product = to_numpy(ragged_dot(rows, kernels, sizes))
    assert np.isnan(product).all(axis=1).tolist() == [
        row == 2 for row in range(12)
    ]
    assert (product[9:] == 0).all()

    def total(rows: Any, kernels: Any) -> Any:
        return keras.ops.sum(ragged_dot(rows, kernels, sizes))

    of_rows, of_kernels = gradient(total, rows, kernels)
    assert np.isnan(of_kernels[0]).all()
    expected = np.stack([rows[4:6].sum(0), rows[6:9].sum(0)])  # (2, d)
    np.testing.assert_allclose(
        of_kernels[1:],
        np.repeat(expected[..., None], UNITS, axis=2),
        rtol=1e-5,
        atol=1e-6,
    )
    assert np.isfinite(of_rows).all()
    assert (of_rows[9:] == 0).all()


def test_a_functional_model_takes_it() -> None:
    rows = keras.Input((INPUTS,))
    kernels = keras.Input(batch_shape=(GROUPS, INPUTS, UNITS))
    sizes = keras.Input(batch_shape=(GROUPS,), dtype="int32")
    outputs = ragged_dot(rows, kernels, sizes)
    assert tuple(outputs.shape) == (None, UNITS)
    model = keras.Model([rows, kernels, sizes], outputs)
    values = [*map(to_numpy, arrays(4)), np.array([1, 2, 0], "int32")]
    np.testing.assert_allclose(
        to_numpy(model(values)), reference(*values), rtol=1e-5, atol=1e-6
    )


def test_a_variable_is_a_tensor() -> None:
    rows, kernels = arrays(3)
    sizes = np.array([1, 1, 1], "int32")
    np.testing.assert_array_equal(
        to_numpy(ragged_dot(rows, keras.Variable(kernels), sizes)),
        to_numpy(ragged_dot(rows, kernels, sizes)),
    )


@pytest.mark.skipif(
    keras.backend.backend() != "jax", reason="an operation of JAX"
)
def test_it_agrees_with_jax() -> None:
    import jax

    rows, kernels = arrays(9)
    sizes = np.array([4, 0, 3], "int32")
    np.testing.assert_allclose(
        to_numpy(ragged_dot(rows, kernels, sizes)),
        to_numpy(jax.lax.ragged_dot(rows, kernels, sizes)),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.eager
@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        (
            {"rows": np.ones((2, 1, INPUTS), "float32")},
            ValueError,
            r"`rows` must have the shape \(S, d\)\. Received: rows of shape",
        ),
        (
            {"kernels": np.ones((INPUTS, UNITS), "float32")},
            ValueError,
            r"`kernels` must have the shape \(E, d, h\)\. Received: kernels",
        ),
        (
            {"kernels": np.ones((GROUPS, 7, UNITS), "float32")},
            ValueError,
            "`kernels` must have as many inputs as `rows` has values, 4. Rec",
        ),
        (
            {"group_sizes": np.ones(GROUPS, "float32")},
            TypeError,
            "`group_sizes` must be integers. Received: group_sizes of dtype",
        ),
        (
            {"group_sizes": np.ones(2, "int32")},
            ValueError,
            "`group_sizes` must have one entry per expert, 3. Received",
        ),
        (
            {"group_sizes": np.array([2, -1, 0], "int32")},
            ValueError,
            "`group_sizes` must not be negative",
        ),
        (
            {"group_sizes": np.array([2, 2, 0], "int32")},
            ValueError,
            "add up to at most the number of rows, 3",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    changed: dict[str, Any], error: type[Exception], message: str
) -> None:
    rows, kernels = arrays(3)
    arguments = {
        "rows": rows,
        "kernels": kernels,
        "group_sizes": np.ones(GROUPS, "int32"),
    }
    with pytest.raises(error, match=message):
        ragged_dot(**{**arguments, **changed})
