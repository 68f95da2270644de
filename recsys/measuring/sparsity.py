import warnings

from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.models.gates import becomes_sparse
from recsys.models.gates import gate_class

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
