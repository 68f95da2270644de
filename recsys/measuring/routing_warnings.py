"""Warnings of a trained gate that does not do what it is for."""

import warnings
from collections.abc import Iterator
from statistics import mean

from keras_moe.layers import Gate
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
    gate, options = gate_class(config.gate), config.gate_options
    if gate.feature_rank == 0 or options.get("static"):
        return
    for task, finding in _findings(config, gate, metrics):
        warnings.warn(
            f"the gate {config.gate!r} of {task!r} routes by nothing: "
            f"{finding}. What helps: {_advice(gate, options)}",
            stacklevel=2,
        )


def _findings(
    config: ResolvedConfig, gate: type[Gate], metrics: JsonMapping
) -> Iterator[tuple[str, str]]:
    """Yields the tasks with such a gate, and what it does."""
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


def _advice(gate: type[Gate], options: JsonMapping) -> str:
    """The option that makes a gate tell rows apart."""
    if options.get("entropy_weight", 0.0) > _LARGEST_ENTROPY_WEIGHT:
        return f"--gate-option entropy_weight={_LARGEST_ENTROPY_WEIGHT:g}"
    name = gate.balance_loss
    if name is None:
        return "a higher --learning-rate or more --epochs"
    return f"--gate-option {name}={10 * options.get(name, 0.0) or 0.01:g}"
