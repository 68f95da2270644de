"""Groups of rows times their matrices, on PyTorch."""

import itertools
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import torch

from keras_moe.ops._tracing import is_eager_on_torch


def affine_groups(
    inputs: torch.Tensor,
    kernels: torch.Tensor,
    biases: torch.Tensor,
    group_sizes: torch.Tensor,
    relu: bool,
) -> torch.Tensor:
    """Multiplies and adds as `grouped_matmul` does, then applies a ReLU or not.

    Args:
        inputs: Tensor `(S, D)`, the groups one after the other.
        kernels: Tensor `(E, D, H)`, of the same type.
        biases: Tensor `(E, H)`, of the same type.
        group_sizes: Int32 `(E,)`, with a sum of at most `S`.
        relu: Boolean.

    Returns:
        Tensor `(S, H)`, zero behind the last group.
    """
    if _has_grouped_mm(inputs, kernels):
        return in_one_kernel(inputs, kernels, biases, group_sizes, relu)
    sizes = group_sizes.tolist()
    sizes.append(len(inputs) - sum(sizes))
    if not is_eager_on_torch():
        return _put_together(inputs, kernels, biases, sizes, relu)
    result: torch.Tensor = _InPlace.apply(inputs, kernels, biases, sizes, relu)
    return result


def _has_grouped_mm(inputs: torch.Tensor, kernels: torch.Tensor) -> bool:
    """Returns whether a GPU has one kernel for all groups.

    It wants bfloat16, rows of whole 16 bytes, and the compute capability 8.0.
    (CPUs have the operation, too, for tests: it does there what is done here,
    but for the biases.) Older releases of PyTorch do not have it.
    """
    return (
        inputs.is_cuda
        and hasattr(torch.nn.functional, "grouped_mm")
        and inputs.dtype == torch.bfloat16
        and all(size and size % 8 == 0 for size in kernels.shape[1:])
        and torch.cuda.get_device_capability(inputs.device) >= (8, 0)
    )


def in_one_kernel(
    inputs: torch.Tensor,
    kernels: torch.Tensor,
    biases: torch.Tensor,
    group_sizes: torch.Tensor,
    relu: bool,
) -> torch.Tensor:
    """`affine_groups` by `torch.nn.functional.grouped_mm`."""
    num_rows, num_experts = len(inputs), len(kernels)
    ends = torch.cumsum(group_sizes, 0, dtype=torch.int32)  # (E,)
    # The rows behind go to the last expert: what no group has is not written.
    offsets = torch.cat([ends[:-1], ends.new_full((1,), num_rows)])
    rows = torch.arange(num_rows, dtype=torch.int32, device=inputs.device)
    experts = torch.bucketize(rows, ends, right=True)  # (S,), `E` behind.
    inside = (experts < num_experts)[:, None]  # (S, 1)
    # A NaN behind would get into the gradient of that expert.
    inputs = torch.where(inside, inputs, 0.0)
    products = torch.nn.functional.grouped_mm(inputs, kernels, offs=offsets)
    last = experts.clamp(max=num_experts - 1)
    products = products + torch.index_select(biases, 0, last)
    products = torch.where(inside, products, 0.0)
    return torch.relu(products) if relu else products


def _put_together(
    inputs: torch.Tensor,
    kernels: torch.Tensor,
    biases: torch.Tensor,
    sizes: Sequence[int],
    relu: bool,
) -> torch.Tensor:
    """Plain operations, which can be compiled and differentiated twice."""
    *groups, rest = inputs.split(sizes)
    parameters = zip(groups, kernels.unbind(), biases.unbind(), strict=True)
    products = torch.cat(
        [
            *(torch.addmm(bias, x, kernel) for x, kernel, bias in parameters),
            inputs.new_zeros((len(rest), kernels.shape[2])),
        ]
    )
    return torch.relu(products) if relu else products


class _Context(Protocol):
    """What a step forward leaves for the one backward."""

    saved_tensors: tuple[torch.Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    sizes: Sequence[int]
    relu: bool

    def save_for_backward(self, *tensors: torch.Tensor) -> None: ...


class _InPlace(torch.autograd.Function):
    """Writes each result to its place at once.

    Of `_put_together`, every operation makes a copy of all rows or of all
    matrices: to put groups together, and to stack the gradients of matrices.
    """

    @staticmethod
    def forward(
        inputs: torch.Tensor,
        kernels: torch.Tensor,
        biases: torch.Tensor,
        sizes: Sequence[int],
        relu: bool,
    ) -> torch.Tensor:
        products = inputs.new_empty((len(inputs), kernels.shape[2]))
        *groups, _ = inputs.split(sizes)  # (group, D) each.
        *group_products, rest = products.split(sizes)  # (group, H) each.
        for rows, kernel, bias, product in zip(
            groups,
            kernels.unbind(),  # (D, H) each.
            biases.unbind(),  # (H,) each.
            group_products,
            strict=True,
        ):
            torch.addmm(bias, rows, kernel, out=product)
            if relu:
                product.relu_()  # While it is in the cache.
        rest.zero_()
        return products

    @staticmethod
    def setup_context(
        ctx: _Context, inputs: Sequence[Any], output: torch.Tensor
    ) -> None:
        *tensors, ctx.sizes, ctx.relu = inputs
        ctx.save_for_backward(*tensors, *[output] * ctx.relu)

    @staticmethod
    def backward(
        ctx: _Context, upstream_grad: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            return _InPlace._differentiable_backward(ctx, upstream_grad)
        inputs, kernels, _, *products = ctx.saved_tensors
        if ctx.relu:
            upstream_grad = torch.ops.aten.threshold_backward(
                upstream_grad, *products, 0
            )
        *groups, _ = inputs.split(ctx.sizes)  # (group, D) each.
        *group_grads, _ = upstream_grad.split(ctx.sizes)  # (group, H) each.
        of_inputs, of_kernels, of_biases = None, None, None
        if ctx.needs_input_grad[0]:
            of_inputs = torch.empty_like(inputs)
            *input_grads, rest = of_inputs.split(ctx.sizes)
            rest.zero_()
            for above, kernel, grad in zip(
                group_grads, kernels.unbind(), input_grads, strict=True
            ):
                torch.mm(above, kernel.t(), out=grad)
        if ctx.needs_input_grad[1]:
            of_kernels = torch.empty_like(kernels)
            for rows, above, grad in zip(
                groups, group_grads, of_kernels.unbind(), strict=True
            ):
                torch.mm(rows.t(), above, out=grad)
        if ctx.needs_input_grad[2]:
            of_biases = kernels.new_empty((len(kernels), kernels.shape[2]))
            for above, grad in zip(
                group_grads, of_biases.unbind(), strict=True
            ):
                torch.sum(above, 0, out=grad)
        return of_inputs, of_kernels, of_biases, None, None

    @staticmethod
    def _differentiable_backward(
        ctx: _Context, upstream_grad: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        inputs, kernels, biases, *_ = ctx.saved_tensors
        needs = ctx.needs_input_grad[:3]
        products = _put_together(inputs, kernels, biases, ctx.sizes, ctx.relu)
        grads = iter(
            torch.autograd.grad(
                products,
                [*itertools.compress((inputs, kernels, biases), needs)],
                upstream_grad,
                create_graph=True,
            )
        )
        return (*(next(grads) if need else None for need in needs), None, None)
