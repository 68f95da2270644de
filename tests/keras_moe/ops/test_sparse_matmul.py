import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy as to_numpy

from keras_moe.ops._sparse_matmul import sparse_matmul

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "jax", reason="JAX has static shapes"
)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    ("num_rows", "num_columns", "num_entries"),
    [(6, 5, 9), (6, 5, 0), (0, 5, 0), (6, 0, 0), (0, 0, 0), (1, 5, 4)],
)
def test_it_is_the_product_with_the_dense_matrix(
    num_rows: int,
    num_columns: int,
    num_entries: int,
    weighted: bool,
    rng: np.random.Generator,
) -> None:
    dense = rng.normal(size=(num_columns, 3)).astype("float32")
    rows = np.sort(rng.integers(0, max(num_rows, 1), num_entries))
    columns = rng.integers(0, max(num_columns, 1), num_entries)
    values = rng.normal(size=num_entries).astype("float32")
    if not weighted:
        values = np.ones_like(values)
    matrix = np.zeros((num_rows, num_columns), "float32")
    np.add.at(matrix, (rows, columns), values)
    product = sparse_matmul(
        rows.astype("int32"),
        columns.astype("int32"),
        keras.ops.convert_to_tensor(values) if weighted else None,
        dense,
        num_rows,
    )
    np.testing.assert_allclose(to_numpy(product), matrix @ dense, atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_the_type_stays(dtype: str) -> None:
    dense = keras.ops.cast([[1.0], [2.0]], dtype)
    rows, columns = np.array([[0, 0], [0, 1]], "int32")
    product = sparse_matmul(rows, columns, None, dense, 1)
    assert keras.backend.standardize_dtype(product.dtype) == dtype
    assert float(product[0, 0]) == 3
