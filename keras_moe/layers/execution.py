import copy
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Sequence

import keras
from keras import ops

from keras_moe.checks import check_choice
from keras_moe.distribution.devices import are_replicated
from keras_moe.distribution.devices import axis_of_experts
from keras_moe.distribution.devices import exchange_slack
from keras_moe.distribution.devices import group_size
from keras_moe.distribution.devices import max_over_devices
from keras_moe.distribution.devices import num_devices
from keras_moe.layers.break_even import most_pairs_that_pay
from keras_moe.layers.break_even import smaller_experts
from keras_moe.layers.break_even import sparse_pays
from keras_moe.layers.exchange import exchange_budget
from keras_moe.layers.exchange import fits
from keras_moe.layers.exchange import run_around
from keras_moe.layers.exchange import run_at_owners
from keras_moe.layers.expert_evaluation import ExpertEvaluation
from keras_moe.layers.expert_evaluation import num_values
from keras_moe.layers.expert_evaluation import with_nan
from keras_moe.layers.experts.experts import Experts
from keras_moe.layers.gates.gate import Gate
from keras_moe.layers.isolated_state import random_states
from keras_moe.layers.isolated_state import run_isolated
from keras_moe.layers.isolated_state import run_on_devices
from keras_moe.layers.pair_bounds import PairBounds
from keras_moe.layers.pair_bounds import num_pairs
from keras_moe.layers.pair_bounds import pair_budget
from keras_moe.ops._tracing import has_dynamic_shapes
from keras_moe.ops._tracing import is_traced_by_jax
from keras_moe.ops._tracing import is_traced_for_export
from keras_moe.types import FloatLike
from keras_moe.types import IntegerLike
from keras_moe.types import Tensor


class Execution:
    """Decides which experts are evaluated for which rows, and runs them.

    The letters of axes are those of `keras_moe.ops`.

    Args:
        mode: `"dense"`, `"sparse"` or `"auto"`.
        gates: One gate per task.
        experts: The experts that the tasks share.
        stopped: The places of gates through which no gradient reaches the
            experts; it reaches the gates. None by default.

    Raises:
        ValueError: If `mode` is unknown, or sparse execution cannot be.
    """

    def __init__(
        self,
        mode: str,
        gates: Sequence[Gate],
        experts: Experts,
        stopped: Collection[int] = (),
    ) -> None:
        check_choice("execution", mode, ("auto", "dense", "sparse"))
        self.mode = mode
        self.experts = experts
        self._evaluation = ExpertEvaluation(experts, stopped)
        self.bounds = PairBounds(gates, mode == "sparse", experts.num_experts)
        if mode == "sparse":
            self._check_sparse(gates)

    def _check_sparse(self, gates: Sequence[Gate]) -> None:
        dense = [gate.name for gate in gates if gate.experts_per_row is None]
        if dense:
            raise ValueError(
                "`execution` must not be 'sparse' with a dense gate, which "
                "does not bound the experts of a row. "
                f"Received: execution='sparse', dense gates {dense}"
            )
        if self.experts.sparse_unsupported_reason is not None:
            raise ValueError(
                "`execution` must not be 'sparse' with these experts: "
                f"{self.experts.sparse_unsupported_reason}. "
                "Received: execution='sparse'"
            )

    def of_call(
        self,
        gates: Sequence[Gate],
        budgets: Sequence[FloatLike | None],
        training: bool | None,
    ) -> "Execution":
        """Returns the execution that plans for the budgets of one call."""
        if not any(gate.takes_budget for gate in gates):
            return self
        planned = copy.copy(self)
        planned.bounds = self.bounds.planned(gates, budgets, training)
        return planned

    def run(
        self, rows: Tensor, weights: Tensor, training: bool | None
    ) -> list[Tensor]:
        """Combines the experts' outputs for every task.

        Args:
            rows: Tensor `(N, *features)`.
            weights: Float32 `(N, T, E)`.
            training: Boolean, for the experts.

        Returns:
            A float32 tensor `(N, H)` for each task, `H` being the number of
            values in an expert's output.
        """
        expert_axis = self._expert_axis(rows)
        mapped = expert_axis is not None or self._runs_on_devices(rows)
        bounded = self.bounds.are_kept(training, mapped)
        shape = tuple(rows.shape)
        if mapped:
            share = -(-shape[0] // num_devices(expert_axis))
            shape = (share, *shape[1:])
        dense = self._is_exported(rows) or self._is_dense(shape)

        def run(rows: Tensor, weights: Tensor) -> list[Tensor]:
            if expert_axis is not None:
                return self._run_split(rows, weights, bounded, dense, training)
            return self._run_planned(rows, weights, bounded, training)

        if dense and expert_axis is None:
            # One operation on all rows, which XLA itself splits well.
            return self._evaluation.dense(rows, weights, training)
        if not mapped:
            return run(rows, weights)
        return run_on_devices(run, self.experts, [rows, weights], expert_axis)

    def _runs_on_devices(self, rows: Tensor) -> bool:
        """Returns whether each device runs the experts on its own rows.

        Eager calls do not: XLA would compile the function anew for each.
        """
        return (
            num_devices() > 1
            and is_traced_by_jax(rows)
            and are_replicated(self.experts.variables)
        )

    def _expert_axis(self, rows: Tensor) -> str | None:
        """Returns the axis along which devices have their own experts."""
        if not (
            self.experts.stacked and is_traced_by_jax(rows) and rows.shape[0]
        ):
            return None
        return axis_of_experts(self.experts.weights)

    def _run_planned(
        self,
        rows: Tensor,
        weights: Tensor,
        bounded: bool,
        training: bool | None,
    ) -> list[Tensor]:
        """Runs what is selected, if that is not too much."""
        pairs = self.bounds.of_batch(ops.shape(rows)[0], training)
        if bounded:
            # Enough for all: a gate that is bounded has no more than its
            # `max_pairs`, which is checked, and one that is limited, k per row.
            self.bounds.check(weights, pairs)
            return self._run_sparse(rows, weights, pairs, training)
        # Enough by the condition: where it does not hold, nothing is planned.
        budget = pair_budget(pairs)
        count = max_over_devices(num_pairs(weights))
        few = count <= budget
        if has_dynamic_shapes():
            # Nothing has to fit a plan: as many as pay.
            most = self._most_pairs(rows)
            few = ops.logical_or(few, ops.cast(count, "float32") <= most)
        return self._run_first_if(
            few,
            lambda: self._run_sparse(rows, weights, budget, training),
            lambda: self._evaluation.dense(rows, weights, training),
            computed_again=is_traced_by_jax(rows),
        )

    def _most_pairs(self, rows: Tensor) -> float | Tensor:
        """Returns up to how many pairs rows `(N, *features)` run sparsely.

        So many neither take longer than all experts on all rows, nor more
        memory.
        """
        num_rows = ops.shape(rows)[0]
        if not isinstance(num_rows, int):
            num_rows = ops.cast(num_rows, "float32")
        shape, experts = tuple(rows.shape), self.experts
        return most_pairs_that_pay(
            num_rows,
            self._copied_values(shape),
            experts.num_experts,
            experts.row_cost,
            smaller_experts(
                num_values(shape[1:]),
                experts._values_of_layers(shape),
                experts.num_experts,
            ),
        )

    def _run_split(
        self,
        rows: Tensor,
        weights: Tensor,
        bounded: bool,
        dense: bool,
        training: bool | None,
    ) -> list[Tensor]:
        """Runs experts of which each device has its own.

        Args:
            rows: Tensor `(N, *features)`, the rows of this device.
            weights: Float32 `(N, T, E)`, for the experts of all devices.
            bounded: Whether no rows of a device have more than their bound.
            dense: Whether all experts run on all rows.
            training: Boolean, for the experts.
        """
        num_rows = rows.shape[0]
        pairs = self.bounds.of_gates(num_rows, training)
        # A row with NaN needs no expert to become NaN.
        lost = ops.any(ops.isnan(weights), axis=2)  # (N, T)
        weights = ops.where(lost[..., None], 0.0, weights)

        def run_own(rows: Tensor, weights: Tensor) -> list[Tensor]:
            if dense:
                return self._evaluation.dense(rows, weights, training)
            return self._run_planned(rows, weights, bounded, training)

        def around() -> list[Tensor]:
            return self._run_around(rows, weights, run_own)

        if dense:
            outputs = around()
        else:
            budget = exchange_budget(num_rows, pairs, exchange_slack())
            most = budget.pairs * group_size()
            outputs = self._run_first_if(
                fits(weights, budget),
                lambda: run_at_owners(
                    rows,
                    weights,
                    budget,
                    lambda rows, weights: self._evaluation.planned(
                        rows, weights, most, most, training
                    ),
                ),
                around,
            )
        return with_nan(outputs, lost)

    def _run_around(
        self,
        rows: Tensor,
        weights: Tensor,
        run_own: Callable[[Tensor, Tensor], list[Tensor]],
    ) -> list[Tensor]:
        """Runs this device's experts for the rows of each of its group."""
        states = random_states(self.experts)
        outputs, values = run_around(
            rows,
            weights,
            num_values(self.experts.expert_output_shape(tuple(rows.shape))[1:]),
            lambda rows, weights, values: run_isolated(
                lambda: run_own(rows, weights), states, values
            ),
            [state.value for state in states],
        )
        for state, value in zip(states, values, strict=True):
            state.assign(value)
        return outputs

    def _is_exported(self, rows: Tensor) -> bool:
        """Returns whether the call is traced for a dense-only file format."""
        exported = is_traced_for_export(rows)
        if exported and self.mode == "sparse":
            raise ValueError(
                "A mixture with execution='sparse' cannot be exported in this "
                'format: export a copy with execution="dense", or "auto", '
                "which is dense in such a file, and with the same weights. "
                f"Received: execution='sparse', gates "
                f"{[gate.name for gate in self.bounds.gates]}"
            )
        return exported

    def _is_dense(self, shape: Sequence[int | None]) -> bool:
        """Returns whether all experts run for any batch."""
        if (
            self.mode == "dense"
            or self.experts.sparse_unsupported_reason is not None
        ):
            return True
        return self.mode == "auto" and not self._sparse_pays(shape)

    def _sparse_pays(self, shape: Sequence[int | None]) -> bool:
        experts = self.experts
        if self.bounds.experts_per_row == experts.num_experts:
            return False
        return sparse_pays(
            shape[0],
            self._copied_values(shape),
            experts.num_experts,
            self.bounds.experts_per_row,
            experts.row_cost,
        )

    def _copied_values(self, shape: Sequence[int | None]) -> int:
        """Returns the values of a row that are copied for each of its experts.

        Args:
            shape: That of the rows, `(N, *features)`.
        """
        outputs = self.experts.expert_output_shape(tuple(shape))[1:]
        # Added up for the row; several tasks first gather their own.
        copies = min(len(self.bounds.gates), 2)
        return num_values(shape[1:]) + copies * num_values(outputs)

    def _run_first_if(
        self,
        condition: Tensor,
        first: Callable[[], list[Tensor]],
        second: Callable[[], list[Tensor]],
        computed_again: bool = False,
    ) -> list[Tensor]:
        """Runs one of two ways, decided for the batch within the graph.

        Args:
            condition: Boolean scalar.
            first: Called without arguments where it holds.
            second: Called without arguments elsewhere.
            computed_again: Whether the gradient computes `second` again rather
                than keep its values. JAX fills those that one way keeps with
                zeros in the other: of all experts on all rows, that takes
                longer than to run a few. Defaults to `False`.
        """
        states = random_states(self.experts)
        values = [state.value for state in states]

        def run_second() -> tuple[list[Tensor], list[Tensor]]:
            return run_isolated(second, states, values)

        outputs, values = ops.cond(
            condition,
            lambda: run_isolated(first, states, values),
            keras.remat(run_second) if computed_again else run_second,
        )
        for state, value in zip(states, values, strict=True):
            state.assign(value)
        return outputs

    def _run_sparse(
        self,
        rows: Tensor,
        weights: Tensor,
        max_pairs: IntegerLike,
        training: bool | None,
    ) -> list[Tensor]:
        """Runs the experts that have weight; NaN is a weight.

        Args:
            rows: Tensor `(N, *features)`.
            weights: Float32 `(N, T, E)`.
            max_pairs: At least the number of weights that are not zero, where
                shapes are static; rows with NaN do not count.
            training: Boolean, for the experts.
        """
        if has_dynamic_shapes():
            return self._evaluation.planned(rows, weights, None, None, training)
        # A row with NaN may have more weights than its gate's bound. It needs
        # no expert to become NaN, and so no slot.
        lost = ops.any(ops.isnan(weights), axis=2)  # (N, T)
        weights = ops.where(lost[..., None], 0.0, weights)
        # Compiled code cannot refuse what has no slot: it makes that visible.
        lost = ops.logical_or(lost, num_pairs(weights) > max_pairs)
        num_slots = max_pairs
        if self.bounds.experts_per_row == self.experts.num_experts:
            num_slots = ops.shape(rows)[0] * weights.shape[2]
        outputs = self._evaluation.planned(
            rows, weights, num_slots, max_pairs, training
        )
        return with_nan(outputs, lost)
