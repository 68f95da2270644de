"""Candidates for the best trial of a sweep: those that became sparse."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recsys.config.gate_names import GATES
from recsys.config.resolved_config import ResolvedConfig
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.measuring.curves import UNTIL_BINARY
from recsys.models.gates import becomes_sparse
from recsys.models.gates import gate_class

# The COMET paper gives experts per example with two decimals: a handful of rows
# between two choices do not make a gate dense.
_ROUNDING = 0.005


@dataclass(frozen=True)
class Selection:
    """The completed trials of a sweep, and those that were left out.

    Attributes:
        trials: Their records, that with the lowest validation loss first.
        notice: What was left out and why; empty where nothing was.
    """

    trials: list[JsonObject]
    notice: str


def most_experts(gate: str, k: int) -> int | None:
    """Returns how many experts per example a trial may have, on average.

    Of `gumbel-softmax` those count that are on at inference.

    Args:
        gate: Name of the gate, with or without a `+`.
        k: The trial's.

    Returns:
        `None` for a gate that does not start dense, is to stay so, or is held
        at its k.

    Example:
    >>> most_experts("comet+", 2), most_experts("gumbel-softmax", 2)
    (2, 4)
    >>> most_experts("softmax", 2)

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        sections 3.1.3 and 3.2, appendices D.1 and D.2.
    """
    if becomes_sparse(gate) and not gate_class(gate).held_at_k:
        return k
    return gate_class(gate).sparse_at


def is_sparse_enough(config: ResolvedConfig, validation: JsonMapping) -> bool:
    """Returns whether a trial may be chosen as the best of its sweep.

    One with static gates may not, either, if their selectors were not binary
    at the end of its training.

    Args:
        config: What was trained.
        validation: Its metrics on the validation split.
    """
    is_static = config.gate_options.get("static", False)
    if is_static and validation.get(UNTIL_BINARY, 0) is None:
        return False
    most = most_experts(config.gate, config.k)
    experts = validation["experts_per_example"]
    return most is None or experts is None or experts <= most + _ROUNDING


def notice_of(left_out: Sequence[str], completed: Sequence[str]) -> str:
    """Says how many trials were left out, and why.

    Args:
        left_out: The gate of each trial that was.
        completed: The gate of each completed trial.

    Returns:
        A sentence; an empty one where none was left out.
    """
    if not left_out:
        return ""
    of_all = Counter(completed)
    by_gate = ", ".join(
        f"{number:,} of {of_all[gate]:,} of {gate}"
        for gate, number in Counter(left_out).items()
    )
    without_k = ", ".join(
        f"{gate}: more than {most}"
        for gate in GATES
        if (most := gate_class(gate).sparse_at) is not None
    )
    return (
        f"Left out for more than k experts per example on average on the "
        f"validation split ({without_k}), or static selectors that are not "
        f"binary, are completed trials: {by_gate}. "
        "--any-sparsity, in Python sparse_only=False, counts them, too."
    )
