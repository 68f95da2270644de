from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence
from math import prod
from typing import Any

from keras import ops

from keras_moe.layers.experts.experts import Experts
from keras_moe.ops._pairs import Pairs
from keras_moe.ops.combine import combine
from keras_moe.ops.combine import pair_weights
from keras_moe.ops.dispatch import dispatch
from keras_moe.ops.routing_plan import routing_plan
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


class ExpertEvaluation:
    """Runs experts, all of them or those of a plan, and adds their outputs up.

    The letters of axes are those of `keras_moe.ops`. Both ways return a float32
    tensor `(N, H)` for each task, `H` being the number of values in an expert's
    output.

    Args:
        experts: The experts that the tasks share.
        stopped: The places of gates through which no gradient reaches the
            experts; it reaches the gates. None by default.
    """

    def __init__(self, experts: Experts, stopped: Collection[int] = ()) -> None:
        self.experts = experts
        self.stopped = frozenset(stopped)

    def dense(
        self, rows: Tensor, weights: Tensor, training: bool | None
    ) -> list[Tensor]:
        """Runs all experts on all rows; arguments are those of `planned`."""
        outputs = self.experts(rows, training=training)
        outputs = ops.reshape(  # (N, E, ...) to (N, E, H)
            outputs, (-1, weights.shape[2], num_values(outputs.shape[2:]))
        )

        def combined(outputs: Tensor, weights: Tensor) -> list[Tensor]:
            sums = ops.einsum(  # (N, T, E) times (N, E, H) is (T, N, H)
                "nte,neh->tnh", weights, outputs
            )
            return ops.unstack(sums, num=weights.shape[1])  # T times (N, H)

        return self._partly_stopped(
            combined, ops.cast(outputs, "float32"), weights
        )

    def planned(
        self,
        rows: Tensor,
        weights: Tensor,
        num_slots: IntegerLike | None,
        max_pairs: IntegerLike | None,
        training: bool | None,
    ) -> list[Tensor]:
        """Runs each expert on the rows that any task wants of it.

        Args:
            rows: Tensor `(N, *features)`.
            weights: Float32 `(N, T, E)`.
            num_slots: For how many pairs (row, expert) to plan. There is one at
                most for each weight that is not zero, and never more than N E.
                `None` where shapes may depend on values.
            max_pairs: Upper bound on the nonzero weights, or `None`.
            training: Boolean, for the experts.
        """
        # A pair that several tasks want is planned, and computed, once.
        wanted = weights != 0  # (N, T, E)
        if weights.shape[1] == 1:
            wanted = ops.reshape(wanted, (-1, weights.shape[2]))  # (N, E)
        else:
            wanted = ops.any(wanted, axis=1)  # (N, E)
        plan = routing_plan(wanted, num_slots)
        if self.experts._takes_pairs and plan.rows.shape[0]:
            # Several tasks add up outputs that they share, each with its own
            # weights: once for each of its pairs, instead of for all.
            single = weights.shape[1] == 1 and not self.stopped
            pairs = Pairs(
                plan.rows, pair_weights(weights[:, 0], plan) if single else None
            )
            outputs = self.experts(
                rows,
                group_sizes=plan.group_sizes,
                training=training,
                pairs=pairs,
            )
            if single:
                return [outputs]
        else:
            outputs = self.experts(
                dispatch(rows, plan),  # (N, ...) to (S, ...)
                group_sizes=plan.group_sizes,
                training=training,
            )
        width = num_values(outputs.shape[1:])
        outputs = ops.reshape(outputs, (-1, width))  # (S, H)
        return self._partly_stopped(
            lambda outputs, weights: combine(outputs, weights, plan, max_pairs),
            outputs,
            weights,
        )

    def _partly_stopped(
        self,
        combined: Callable[[Tensor, Tensor], list[Tensor]],
        outputs: Tensor,
        weights: Tensor,
    ) -> list[Tensor]:
        """Combines outputs for all tasks, for some without their gradient.

        Args:
            combined: From outputs and weights to a tensor for each task.
            outputs: What the experts returned.
            weights: Float32 `(N, T, E)`.
        """
        free = combined(outputs, weights)
        if not self.stopped:
            return free
        # Of all tasks: a plan has a slot for what any of them selects.
        stopped = combined(ops.stop_gradient(outputs), weights)
        return [
            stopped[task] if task in self.stopped else free[task]
            for task in range(len(free))
        ]


def with_nan(outputs: Sequence[Tensor], lost: Tensor) -> list[Tensor]:
    """Returns outputs with NaN in the rows `(N, T)` that are lost to a task."""
    return [
        ops.where(lost[:, task, None], float("nan"), output)  # (N, H)
        for task, output in enumerate(outputs)
    ]


def num_values(shape: Sequence[Any]) -> int:
    """Returns the number of values of a tensor with a known shape."""
    return int(prod(shape))
