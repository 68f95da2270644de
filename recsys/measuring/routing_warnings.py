"""Warnings of a trained gate that does not do what it is for."""

import warnings
from collections.abc import Iterator
from statistics import mean

from keras_moe.layers import ScoredGate
from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.models.gates import becomes_sparse
from recsys.models.gates import gate_class

# From this share of the rows on, a set of experts counts as that of all rows.
MOST_ROWS = 0.95
# Weights that differ by about a tenth of their mean from row to row.
LEAST_BITS = 0.01
# A gate that gives weight to this share of all experts selects none.
_NEARLY_ALL = 0.95

# A larger entropy weight drives all rows to one side of each split before
# the gate has learned anything.
_LARGEST_ENTROPY_WEIGHT = 0.001
# Up to this many times its k, a gate counts as sparse.
SLACK = 1.25


def warn_if_dense(config: ResolvedConfig, metrics: JsonMapping) -> None:
    """Warns of a trained gate that was to become sparse and has not.

    Args:
        config: The resolved configuration of a run.
        metrics: What `measure` returns for a split.
    """
    if not becomes_sparse(config.gate):
        return
    k = config.k
    dense = {
        task: experts
        for task, experts in metrics["experts_per_example_by_task"].items()
        if experts > SLACK * k
    }
    if dense:
        advice = "A larger entropy_weight or a smaller gamma"
        if gate_class(config.gate).held_at_k:
            advice = "A larger initial_penalty or growth"
        means = ", ".join(f"{task} {mean:.1f}" for task, mean in dense.items())
        warnings.warn(
            f"the gate {config.gate!r} has not become sparse in the epoch with "
            f"the lowest validation loss, whose model is kept: with k = {k}, "
            f"expected at most {SLACK * k:g} experts per example. Received: "
            f"{means}. {advice} among the gate options, or more steps, make "
            "it sparse",
            stacklevel=2,
        )


def warn_if_idle(config: ResolvedConfig, metrics: JsonMapping) -> None:
    """Warns of the tasks whose gate does not distinguish rows.

    It gives nearly all rows the same few experts, or weights that hardly
    differ. Its mixture does what one dense expert would do. Static gates, which
    must, and hash gates, which route by ids, are not reported.

    Args:
        config: The resolved configuration of a run.
        metrics: What `measure` returns for a split.
    """
    for task, finding in idle_tasks(config, metrics):
        warnings.warn(
            f"the gate {config.gate!r} of {task!r} routes by nothing: "
            f"{finding}. What helps: {routing_advice(config)}",
            stacklevel=2,
        )


def idle_tasks(
    config: ResolvedConfig, metrics: JsonMapping
) -> Iterator[tuple[str, str]]:
    """Yields the tasks that `warn_if_idle` warns of, and what their gate does.

    Args:
        config: The resolved configuration of a run.
        metrics: What `measure` returns for a split.
    """
    gate = gate_class(config.gate)
    if gate.feature_rank == 0 or config.gate_options.get("static"):
        return
    counts = metrics["experts_per_example_by_task"]
    of_levels = config.experts_of_gate(len(counts))
    num_experts = mean(of_levels) if of_levels else 0
    for task, routing in metrics.get("routing", {}).items():
        share = routing["most_frequent_set"]
        bits = routing["mutual_information"]
        selects = counts[task] < _NEARLY_ALL * num_experts
        if not gate.always_dense and selects and share >= MOST_ROWS:
            yield task, f"{share:.0%} of rows take the same experts"
        elif bits is not None and bits < LEAST_BITS:
            yield task, f"its weights hardly differ by row ({bits:.3f} bits)"


def routing_advice(config: ResolvedConfig) -> str:
    """Returns the option that makes a gate tell rows apart.

    Args:
        config: The resolved configuration of a run.
    """
    gate, options = gate_class(config.gate), config.gate_options
    if options.get("entropy_weight", 0.0) > _LARGEST_ENTROPY_WEIGHT:
        return f"--gate-option entropy_weight={_LARGEST_ENTROPY_WEIGHT:g}"
    if gate.balance_loss is None:
        return "a higher --learning-rate or more --epochs"
    return _balance_option(gate.balance_loss, options)


def balance_options(config: ResolvedConfig) -> list[str]:
    """Returns the options that bring unused experts back, if there are any.

    Args:
        config: The resolved configuration of a run.
    """
    gate, options = gate_class(config.gate), config.gate_options
    remedies = []
    if gate.balance_loss is not None:
        remedies.append(_balance_option(gate.balance_loss, options))
    if issubclass(gate, ScoredGate) and options.get("balance") is None:
        remedies.append("--gate-option balance=bias")
    return remedies


def _balance_option(name: str, options: JsonMapping) -> str:
    """The weight of a loss that spreads the rows: ten times a given one."""
    return f"--gate-option {name}={10 * options.get(name, 0.0) or 0.01:g}"
