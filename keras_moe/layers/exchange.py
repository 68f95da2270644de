"""Experts that are split over devices: rows go to them, and sums come back.

The letters of axes are those of `keras_moe.ops`, and

    G  the devices of a group, which have all experts together
    L  the experts of each, E / G
    B  the rows that a device may send to each of its group
    R  the sums that it may have back from each
"""

from collections.abc import Callable
from collections.abc import Sequence
from math import ceil
from typing import Any
from typing import NamedTuple

from keras import ops

from keras_moe.distribution.devices import exchange
from keras_moe.distribution.devices import group_size
from keras_moe.distribution.devices import max_over_devices
from keras_moe.distribution.devices import pass_around
from keras_moe.distribution.devices import place_in_group
from keras_moe.ops._rows import gather
from keras_moe.ops._rows import segment_sum
from keras_moe.ops.routing_plan import first_rows
from keras_moe.types import Structure
from keras_moe.types import Tensor

# Called with rows and with their weights for the experts of this device, it
# returns their weighted sums, `(N, H)` for each task.
RunOwn = Callable[[Tensor, Tensor], list[Tensor]]


class ExchangeBudget(NamedTuple):
    """Sizes of the messages between a device and each one of its group.

    Attributes:
        rows: `B`, rows that want any expert there.
        sums: `R`, weighted sums for (row, task).
        pairs: Weights that are not zero.
    """

    rows: int
    sums: int
    pairs: int


def exchange_budget(
    num_rows: int, pairs: Sequence[Any], slack: float
) -> ExchangeBudget:
    """Returns the sizes of an even routing, plus slack.

    Args:
        num_rows: `N`, the rows of a device.
        pairs: Integers, how many weights of its rows each task may have that
            are not zero.
        slack: Extra room as a share; 0.25 is a quarter.

    Returns:
        A budget that is never above what there could be.
    """
    size = group_size()

    def share(num_pairs: int) -> float:
        """Number of rows routed to one of the device's experts."""
        return num_rows * (1 - (1 - 1 / size) ** (num_pairs / num_rows))

    def limited(count: float, limit: int) -> int:
        return min(ceil((1 + slack) * count), limit)

    rows = limited(share(sum(pairs)), num_rows)
    return ExchangeBudget(
        rows,
        limited(sum(map(share, pairs)), rows * len(pairs)),
        limited(sum(pairs) / size, sum(pairs)),
    )


def fits(weights: Tensor, budget: ExchangeBudget) -> Tensor:
    """Returns whether every device of every group stays within the budget.

    Args:
        weights: Float32 `(N, T, E)`.
        budget: What there is room for.

    Returns:
        Boolean scalar, the same on all devices.
    """
    wanted = _by_owner(weights) != 0  # (G, N, T, L)
    sums = ops.any(wanted, axis=3)  # (G, N, T)
    rows = ops.any(sums, axis=2)  # (G, N)
    most = [
        ops.max(ops.sum(ops.cast(flags, "int32"), axis=axes)) - limit
        for flags, axes, limit in (
            (rows, 1, budget.rows),
            (sums, (1, 2), budget.sums),
            (wanted, (1, 2, 3), budget.pairs),
        )
    ]
    return max_over_devices(ops.max(ops.stack(most))) <= 0


def run_at_owners(
    rows: Tensor, weights: Tensor, budget: ExchangeBudget, run_own: RunOwn
) -> list[Tensor]:
    """Sends each row to the devices that have experts for it.

    Args:
        rows: Tensor `(N, *features)`.
        weights: Float32 `(N, T, E)`, which fit the budget.
        budget: What there is room for.
        run_own: Runs the experts of this device.

    Returns:
        A tensor `(N, H)` for each task.
    """
    num_rows, num_tasks, _ = weights.shape
    parts = _by_owner(weights)  # (G, N, T, L)
    wanted = ops.any(parts != 0, axis=(2, 3))  # (G, N)
    sent = first_rows(ops.transpose(wanted), budget.rows)  # (G, B)
    sent_weights = _sent_weights(parts, sent)  # (G B, T, L)
    own_weights = exchange(sent_weights)
    own_rows = gather(rows, ops.reshape(ops.minimum(sent, num_rows - 1), (-1,)))
    sums = ops.stack(run_own(exchange(own_rows), own_weights), axis=1)
    replies = exchange(
        _entries(  # (G, B T, H) to (G R, H)
            _by_device(ops.reshape(sums, (-1, sums.shape[2]))),
            _wanted_sums(own_weights, budget.sums),
        )
    )
    places, used = _places(
        sent, _wanted_sums(sent_weights, budget.sums), num_tasks
    )
    added = segment_sum(
        ops.where(used[:, None], replies, 0.0), places, num_rows * num_tasks
    )
    added = ops.reshape(added, (num_rows, num_tasks, -1))
    return ops.unstack(added, num=num_tasks, axis=1)


def run_around(
    rows: Tensor,
    weights: Tensor,
    num_values: int,
    run_own: Callable[..., tuple[list[Tensor], Structure]],
    carried: Structure,
) -> tuple[list[Tensor], Structure]:
    """Each device of a group runs its experts for the rows of each other.

    Exact whatever the weights are, with memory for the rows of one device:
    the rows go around the group with the sums that are due to them.

    Args:
        rows: Tensor `(N, *features)`.
        weights: Float32 `(N, T, E)`.
        num_values: `H`.
        run_own: Called with rows, their weights for the experts of this
            device, and what its last call has left in `carried`. It returns
            the weighted sums and the new `carried`.
        carried: Tensors in any structure.

    Returns:
        A tensor `(N, H)` for each task, and `carried`.
    """
    num_rows, num_tasks, _ = weights.shape

    def step(
        visiting: Structure, sums: list[Tensor], carried: Structure
    ) -> tuple[list[Tensor], Structure]:
        rows, weights = visiting
        parts = _by_owner(weights)  # (G, N, T, L)
        added, carried = run_own(
            rows, ops.take(parts, place_in_group(), axis=0), carried
        )
        return [a + b for a, b in zip(sums, added, strict=True)], carried

    zeros = [ops.zeros((num_rows, num_values)) for _ in range(num_tasks)]
    return pass_around(step, (rows, weights), zeros, carried)


def _by_owner(weights: Tensor) -> Tensor:
    """Weights for each device's experts: `(N, T, E)` to `(G, N, T, L)`."""
    num_rows, num_tasks, _ = weights.shape
    parts = ops.reshape(weights, (num_rows, num_tasks, group_size(), -1))
    return ops.transpose(parts, (2, 0, 1, 3))


def _by_device(tensor: Tensor) -> Tensor:
    """`(G M, ...)` to `(G, M, ...)`."""
    shape = tuple(tensor.shape)
    size = group_size()
    return ops.reshape(tensor, (size, shape[0] // size, *shape[1:]))


def _entries(tensor: Tensor, index: Tensor) -> Tensor:
    """Entries of each device: of `(G, M, ...)` to `(G R, ...)`.

    Args:
        tensor: Tensor `(G, M, ...)`.
        index: Int32 `(G, R)`; any entry for those from `M` on.
    """
    size, count, *shape = tensor.shape
    starts = count * ops.arange(size, dtype="int32")[:, None]
    places = ops.reshape(starts + ops.minimum(index, count - 1), (-1,))
    return gather(ops.reshape(tensor, (size * count, *shape)), places)


def _sent_weights(parts: Tensor, sent: Tensor) -> Tensor:
    """The weights `(G B, T, L)` of what is sent; 0 where nothing is."""
    used = ops.reshape(sent < parts.shape[1], (-1, 1, 1))
    return ops.where(used, _entries(parts, sent), 0.0)


def _wanted_sums(weights: Tensor, count: int) -> Tensor:
    """Returns the wanted sums of each device, in the order of row and task.

    Args:
        weights: Float32 `(G B, T, L)`.
        count: `R`.

    Returns:
        Int32 `(G, R)`, places among the `B T` of a device; `B T` for none.
    """
    wanted = ops.any(weights != 0, axis=2)  # (G B, T)
    wanted = ops.reshape(_by_device(wanted), (group_size(), -1))  # (G, B T)
    return first_rows(ops.transpose(wanted), count)


def _places(
    sent: Tensor, sums: Tensor, num_tasks: int
) -> tuple[Tensor, Tensor]:
    """Returns the places of the returned sums.

    Args:
        sent: Int32 `(G, B)`, the rows that were sent.
        sums: Int32 `(G, R)`, what `_wanted_sums` returned for them.
        num_tasks: `T`.

    Returns:
        Int32 `(G R,)`, places among the `N T` of this device, and boolean
        `(G R,)`, whether there is a sum.
    """
    used = ops.reshape(sums < sent.shape[1] * num_tasks, (-1,))
    rows = _entries(sent, sums // num_tasks)  # (G R,)
    tasks = ops.reshape(sums % num_tasks, (-1,))
    return ops.where(used, rows * num_tasks + tasks, 0), used
