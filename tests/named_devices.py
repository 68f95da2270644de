"""Whether PyTorch code would run on another device, tested without one."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_MAKERS = (
    torch.arange,
    torch.empty,
    torch.eye,
    torch.full,
    torch.linspace,
    torch.ones,
    torch.rand,
    torch.randn,
    torch.randint,
    torch.scalar_tensor,
    torch.tensor,
    torch.zeros,
)


class NamedDevices(TorchFunctionMode):
    """Within it, whatever makes a tensor has to say on which device.

    Without a device a tensor is on the processor, and what computes with it
    and with another one fails where that is on a GPU.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = dict(kwargs or {})
        if func in _MAKERS and named.get("device") is None:
            raise AssertionError(f"torch.{func.__name__} without a device")
        return func(*args, **named)
