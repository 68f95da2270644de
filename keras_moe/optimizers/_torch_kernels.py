"""PyTorch's kernels of optimizers: one pass over a weight and its slots."""

from collections.abc import Sequence

import keras
import torch
from torch.optim.adagrad import adagrad as _adagrad
from torch.optim.adam import adam as _adam


def takes(
    variable: keras.Variable, gradient: torch.Tensor, devices: Sequence[str]
) -> bool:
    """Returns whether the kernels compute a weight's step as Keras does.

    Not of gradients of rows, nor of half precision: Keras rounds there after
    each operation. The kernels take it for granted that the numbers of a weight
    and of its slots lie in the same order.

    Args:
        variable: The weight, a `keras.Variable`.
        gradient: Its gradient.
        devices: The kinds of devices that have the kernel.
    """
    value = variable.value
    return (
        value.dtype == gradient.dtype == torch.float32
        and value.device.type in devices
        and value.is_contiguous()
        and not gradient.is_sparse
    )


def adam(
    variables: Sequence[torch.Tensor],
    slots: Sequence[Sequence[torch.Tensor]],
    gradients: Sequence[torch.Tensor],
    step_size: torch.Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """Changes weights and their slots by a step of Adam.

    Args:
        variables: Tensors, the weights.
        slots: Their first moments, their second moments and, for AMSGrad, the
            largest second moments so far.
        gradients: Their gradients.
        step_size: 0-d tensor, the learning rate with both corrections of bias.
        beta_1: Decay rate of the first moment.
        beta_2: Decay rate of the second moment.
        epsilon: Term added to the divisor.
    """
    momentums, velocities, *hats = map(list, slots)
    # PyTorch adds epsilon to the corrected root, Keras to the root as it is.
    # Step infinity corrects nothing: the step size is corrected already.
    never = torch.full((), float("inf"), device=step_size.device)
    _adam(
        list(variables),
        [gradient.contiguous() for gradient in gradients],
        momentums,
        velocities,
        hats[0] if hats else [],
        [never] * len(variables),
        fused=True,
        amsgrad=bool(hats),
        beta1=beta_1,
        beta2=beta_2,
        lr=step_size,
        weight_decay=0.0,
        eps=epsilon,
        maximize=False,
    )


def adagrad(
    variables: Sequence[torch.Tensor],
    accumulators: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    learning_rate: float,
    epsilon: float,
) -> None:
    """Changes weights and their slots by a step of Adagrad.

    Args:
        variables: Tensors, the weights.
        accumulators: Their sums of squared gradients.
        gradients: Their gradients.
        learning_rate: The learning rate.
        epsilon: Term added to the root of the sum.
    """
    step = torch.zeros(())  # The learning rate decays by nothing.
    _adagrad(
        list(variables),
        [gradient.contiguous() for gradient in gradients],
        list(accumulators),
        [step] * len(variables),
        fused=True,
        lr=learning_rate,
        weight_decay=0.0,
        lr_decay=0.0,
        eps=epsilon,
        maximize=False,
    )
