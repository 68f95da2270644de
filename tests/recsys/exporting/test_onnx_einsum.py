import pytest

from recsys.exporting.onnx_einsum import MatrixProduct
from recsys.exporting.onnx_einsum import matrix_product

pytestmark = pytest.mark.once("tensorflow")


def test_attention_of_any_length_is_not_reshaped() -> None:
    """Neither batch nor length is known, and both may be 0."""
    vectors, scores = (-1, -1, 2, 8), (-1, 2, -1, -1)
    assert matrix_product(
        "btnh,bsnh->bnts", [vectors, vectors]
    ) == MatrixProduct(
        ([0, 2, 1, 3], None), ([0, 2, 3, 1], None), None, [0, 1, 2, 3]
    )
    product = matrix_product("bnts,bsnh->btnh", [scores, vectors])
    assert product is not None
    assert (product.shape, product.order) == (None, [0, 2, 1, 3])


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bt,bs->bts", [(-1, -1), (-1, -1)]),  # To be reshaped to (b, t, 1).
        ("ab,cd->abcd", [(-1, 2), (-1, 3)]),
        ("aab,bc->ac", [(2, 2, 3), (3, 4)]),
        ("...b,bc->...c", [(2, 3), (3, 4)]),
    ],
)
def test_other_sums_are_no_matrix_products(
    equation: str, shapes: list[tuple[int, ...]]
) -> None:
    assert matrix_product(equation, shapes) is None
