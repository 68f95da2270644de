from typing import Any

import keras
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

if keras.backend.backend() != "torch":
    pytest.skip("the ways of PyTorch", allow_module_level=True)

import torch

from keras_moe.ops import _torch_groups
from keras_moe.ops import grouped_matmul

EXPERTS, DEPTH, UNITS = 4, 8, 16


def make_arguments(rows: int, dtype: Any = torch.float32) -> list[Any]:
    # Integers so small that every sum is exact, in bfloat16 too.
    generator = torch.Generator().manual_seed(0)
    shapes = [(rows, DEPTH), (EXPERTS, DEPTH, UNITS), (EXPERTS, UNITS)]
    return [
        torch.randint(-2, 3, shape, generator=generator)
        .to(dtype)
        .requires_grad_()
        for shape in shapes
    ]


def outputs_and_gradients(
    function: Any, arguments: list[Any], sizes: list[int], relu: bool
) -> list[Any]:
    products = function(*arguments, torch.tensor(sizes).int(), relu)
    upstream_grad = torch.arange(products.numel()).reshape(products.shape) % 5
    upstream_grad = (upstream_grad - 2).to(products.dtype)
    return [products, *torch.autograd.grad(products, arguments, upstream_grad)]


def plain(
    inputs: Any, kernels: Any, biases: Any, sizes: Any, relu: bool
) -> Any:
    """In float64, whatever the arguments' type."""
    sizes = [*sizes.tolist(), len(inputs) - int(sizes.sum())]
    arguments = [x.double() for x in (inputs, kernels, biases)]
    return _torch_groups._put_together(*arguments, sizes, relu)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", ["affine_groups", "in_one_kernel"])
def test_every_way_is_the_plain_one_gradients_included(
    way: str, dtype: Any
) -> None:
    if way == "in_one_kernel" and not hasattr(
        torch.nn.functional, "grouped_mm"
    ):
        pytest.skip("this release of PyTorch has no grouped_mm")
    function = getattr(_torch_groups, way)

    @settings(deadline=None, max_examples=20)
    @given(
        st.lists(st.integers(0, 5), min_size=EXPERTS, max_size=EXPERTS),
        st.integers(0, 2),
        st.booleans(),
    )
    def check(sizes: list[int], behind: int, relu: bool) -> None:
        arguments = make_arguments(sum(sizes) + behind, dtype)
        for actual, expected in zip(
            outputs_and_gradients(function, arguments, sizes, relu),
            outputs_and_gradients(plain, arguments, sizes, relu),
            strict=True,
        ):
            assert actual.dtype == dtype
            assert torch.equal(actual.double(), expected.double())

    check()


@pytest.mark.skipif(
    not hasattr(torch.nn.functional, "grouped_mm"),
    reason="this release of PyTorch has no grouped_mm",
)
def test_a_row_behind_gets_into_no_gradient_of_the_kernel() -> None:
    arguments = make_arguments(7, torch.bfloat16)
    with torch.no_grad():
        arguments[0][5:] = float("nan")
    results = outputs_and_gradients(
        _torch_groups.in_one_kernel, arguments, [2, 0, 2, 1], relu=False
    )
    assert all(torch.isfinite(each).all() for each in results)
    assert (results[0][5:] == 0).all()
    assert (results[1][5:] == 0).all()


@pytest.mark.parametrize("needed", [(0,), (1,), (0, 2)])
def test_only_the_gradients_that_are_needed_exist(
    needed: tuple[int, ...],
) -> None:
    arguments = make_arguments(6)
    sizes = torch.tensor([3, 0, 2, 1]).int()
    expected = outputs_and_gradients(plain, arguments, [3, 0, 2, 1], False)
    upstream_grad = torch.arange(6 * UNITS).reshape(6, UNITS) % 5 - 2.0
    for index, argument in enumerate(arguments):
        argument.requires_grad_(index in needed)
    products = _torch_groups.affine_groups(*arguments, sizes, False)
    products.backward(upstream_grad)
    for index, argument in enumerate(arguments):
        if index not in needed:
            assert argument.grad is None
            continue
        torch.testing.assert_close(argument.grad, expected[index + 1])


def test_what_traces_gets_plain_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [x.detach() for x in make_arguments(6)]
    sizes = torch.tensor([3, 0, 2, 1]).int()
    expected = grouped_matmul(*arguments[:2], sizes, arguments[2])
    monkeypatch.delattr(_torch_groups, "_InPlace")

    def total(inputs: Any) -> Any:
        return grouped_matmul(inputs, *arguments[1:2], sizes).sum()

    # The first derivative by `torch.func`, and the compiler's front end.
    of_inputs = torch.func.grad(total)(arguments[0])
    kernels = arguments[1][torch.tensor([0, 0, 0, 2, 2, 3])]
    torch.testing.assert_close(of_inputs, kernels.sum(2))
    compiled = torch.compile(grouped_matmul, backend="eager")
    actual = compiled(*arguments[:2], sizes, arguments[2])
    torch.testing.assert_close(actual, expected)
