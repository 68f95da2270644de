"""Gradients of several losses of one forward pass on PyTorch."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from contextlib import nullcontext

import keras
import torch

from recsys.distribution.process_group import current_group
from recsys.tables.marks import by_rows


def recorded() -> AbstractContextManager[None]:
    """The scope of the forward pass: tensors remember where they come from."""
    return nullcontext()


def gradients(
    tape: None,
    parts: torch.Tensor,
    cotangent: torch.Tensor,
    variables: Sequence[keras.Variable],
) -> list[torch.Tensor]:
    """Returns the gradients of the parts times the cotangent, summed.

    Where several processes train together, the mean of all.
    """
    native = [variable.value for variable in variables]
    own_gradients = torch.autograd.grad(
        parts, native, cotangent, retain_graph=True, allow_unused=True
    )
    group = current_group()
    if group is None:
        return list(own_gradients)
    return group.mean_gradients(own_gradients, variables, by_rows(variables))


def apply(
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[torch.Tensor],
    variables: Sequence[keras.Variable],
) -> None:
    """Lets the optimizer take a step."""
    with torch.no_grad():
        optimizer.apply(gradients, variables)
