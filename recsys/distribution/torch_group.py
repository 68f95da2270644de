"""Several processes that train one model, on PyTorch.

`torch.nn.parallel.DistributedDataParallel` is not used: it wraps the call of a
model, and a step of Keras calls the model itself.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import torch
import torch.distributed as dist

from keras_moe.types import Tensor


def num_processes() -> int:
    """Number of processes; 1 unless `join` was called."""
    return dist.get_world_size() if dist.is_initialized() else 1


def process_index() -> int:
    """Index of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def join(address: str, count: int, index: int, gpu: int | None) -> None:
    """Joins the processes of a training.

    They talk by NCCL where PyTorch has a GPU, and else by Gloo.

    Args:
        address: `host:port` where the first one listens.
        count: How many there are.
        index: Which one this is, counted from 0.
        gpu: Which of its machine's GPUs it takes; the first one unless given.
    """
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        torch.cuda.set_device(gpu or 0)
    host, _, port = address.rpartition(":")
    dist.init_process_group(
        "nccl" if on_gpu else "gloo",
        # Given an address, PyTorch would wait for torchrun to listen there.
        store=dist.TCPStore(host, int(port), count, is_master=not index),
        world_size=count,
        rank=index,
    )


def of_first(numbers: list[int]) -> list[int]:
    """Returns the numbers that the first process has given."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    values = torch.tensor(numbers, device=device)
    dist.broadcast(values, src=0)
    result: list[int] = values.tolist()
    return result


def leave() -> None:
    """Parts from the others, if there are any."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


class TorchGroup:
    """A `ProcessGroup` of all processes that have joined."""

    in_one_process = False

    def __init__(self) -> None:
        self.index = process_index()
        self.count = num_processes()

    def all_rows(self, rows: Tensor) -> torch.Tensor:
        return _AllRows.apply(keras.ops.convert_to_tensor(rows), self.index)

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        total = values.detach().clone()
        dist.all_reduce(total)
        return total

    def mean(self, values: torch.Tensor) -> torch.Tensor:
        return self.sum(values) / self.count

    def mean_gradients(
        self,
        gradients: Sequence[torch.Tensor],
        variables: Sequence[keras.Variable],
        by_rows: Sequence[bool],
    ) -> list[torch.Tensor]:
        there = torch.tensor(
            [float(gradient is not None) for gradient in gradients],
            device=variables[0].value.device,
        )
        dist.all_reduce(there)
        result = [
            self._mean_of_rows(gradient, variable)
            if rows and anywhere
            else _dense(gradient, variable)
            if anywhere
            else None
            for gradient, variable, rows, anywhere in zip(
                gradients, variables, by_rows, there.tolist(), strict=True
            )
        ]
        dense = [
            gradient
            for gradient, rows in zip(result, by_rows, strict=True)
            if not (gradient is None or rows)
        ]
        for dtype in {gradient.dtype for gradient in dense}:
            self._average(
                [gradient for gradient in dense if gradient.dtype == dtype]
            )
        return result

    def _average(self, gradients: Sequence[torch.Tensor]) -> None:
        """Averages tensors of one type in place, in one message."""
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def _mean_of_rows(
        self, gradient: torch.Tensor, table: keras.Variable
    ) -> torch.Tensor:
        """The mean of gradients of rows, each process having its own rows."""
        shape, device = tuple(table.shape), table.value.device
        if gradient is None:
            values = torch.zeros((0, *shape[1:]), device=device)
            rows = torch.zeros((0,), dtype=torch.int64, device=device)
        else:
            gradient = gradient.coalesce()
            values, rows = gradient.values(), gradient.indices()[0]
        num_rows = torch.tensor([len(rows)], device=device)
        counts = _gathered(num_rows).tolist()
        most = max(counts)
        values = torch.cat(
            [values, values.new_zeros((most - len(rows), *shape[1:]))]
        )
        rows = torch.cat([rows, rows.new_zeros((most - len(rows),))])
        # Without what fills up the shorter ones: that is a gradient of row 0.
        filled = torch.arange(most, device=device)
        there = torch.cat([filled < count for count in counts])
        return torch.sparse_coo_tensor(
            _gathered(rows)[there][None],
            _gathered(values)[there] / self.count,
            shape,
            check_invariants=False,
        )

    def copy_of_first(self, variables: Sequence[keras.Variable]) -> None:
        for variable in variables:
            dist.broadcast(variable.value.detach(), src=0)

    def on_each(self, function: Callable[[], None]) -> None:
        function()


class _AllRows(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: torch.Tensor, index: int) -> torch.Tensor:
        context.own = slice(index * len(rows), (index + 1) * len(rows))
        return _gathered(rows)

    @staticmethod
    def backward(
        context: Any, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        part = gradient[context.own]
        return part * dist.get_world_size(), None


def _gathered(rows: torch.Tensor) -> torch.Tensor:
    rows = rows.detach().contiguous()
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows)
    return torch.cat(parts)


def _dense(
    gradient: torch.Tensor | None, variable: keras.Variable
) -> torch.Tensor:
    if gradient is None:
        return torch.zeros_like(variable.value)
    return gradient
