from collections.abc import Sequence

import keras
import numpy as np
import pandas as pd

from recsys.config.resolved_config import ResolvedConfig
from recsys.measuring.curves import UNTIL_BINARY
from recsys.measuring.curves import read_history
from recsys.measuring.curves import until_binary
from recsys.models.gates import becomes_sparse
from recsys.models.gates import gate_class
from recsys.reporting.operations import Operations
from recsys.reporting.operations import count_operations
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs

_Array = np.ndarray[tuple[int], np.dtype[np.float64]]

# What the operations of the others are divided by.
REFERENCE = "top-k"

_TEXT = (
    "Floating-point operations of the products that the weights of the gates "
    "call for in training the best model by validation loss, per example and "
    "in all, those of the first model with a top-k gate being 1. A forward "
    "and a backward pass count as three forward passes. In an epoch as many "
    "experts run as the gates choose for an example of the validation split, "
    "the mean of before and after it, or from the step on since which all "
    "choices are binary, after it; all of them before the first epoch of a "
    "gate that starts dense, while a permutation is searched for, "
    "and with a Gumbel-softmax gate. With a budget gate, as many experts as "
    "the trained gates choose for the budgets that examples draw in training, "
    "in each epoch. Not counted: the optimizer, lookups of "
    "embeddings, whatever is not a product, the evaluation after each epoch, "
    "and what automatic execution spends on experts without weight where "
    "leaving them out would not pay."
)


def training_flops(trained: Sequence[Trained]) -> Section | None:
    """Counts the operations that the training takes with each gate.

    They are counted in TensorFlow's graph; under other backends there is
    nothing to say.

    Args:
        trained: The finished trainings; the best of each model is counted,
            where it holds one `MoE` or `MMoE` and has a history.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture
        of Experts with Applications to Multi-Task Learning, NeurIPS 2021,
        appendix C.3, table C.4.
    """
    if keras.backend.backend() != "tensorflow":
        return None
    tables = [
        table
        for setting, runs in best_runs(trained).items()
        for table in _table(setting, runs)
    ]
    return (
        Section("Operations of a training", _TEXT, tables) if tables else None
    )


def flops_of_training(
    counted: Operations, history: pd.DataFrame, config: ResolvedConfig
) -> list[float]:
    """Counts the operations of a forward and a backward pass in each epoch.

    Args:
        counted: The operations of the trained model.
        history: A row for each epoch, with "experts_evaluated" and
            "experts_per_example".
        config: What it was trained with.

    Returns:
        For each epoch, the operations per example.
    """
    experts, of_a_gate = (
        _in_epochs(name, history, config, counted.num_experts)
        for name in ("experts_evaluated", "experts_per_example")
    )
    weights = counted.num_gates * of_a_gate
    if counted.drawn is not None:
        searched = config.search_epochs if config.gate_choice.searched else 0
        experts[searched:], weights[searched:] = counted.drawn
    return [
        counted.training(*epoch) for epoch in zip(experts, weights, strict=True)
    ]


def _in_epochs(
    name: str, history: pd.DataFrame, config: ResolvedConfig, num_experts: int
) -> _Array:
    """The mean number of experts in each epoch, given that after each."""
    ends = history[name].to_numpy(np.float64)
    first = num_experts if becomes_sparse(config.gate) else ends[0]
    starts = np.concatenate([[first], ends[:-1]])
    means = ends + _share_until_binary(history) * (starts - ends) / 2
    if gate_class(config.gate).dense_in_training:
        means[:] = num_experts
    if config.gate_choice.searched:
        means[: config.search_epochs] = num_experts
    return means


def _share_until_binary(history: pd.DataFrame) -> _Array:
    """The share of each epoch's steps in which the choices still changed."""
    until = until_binary(history).get(UNTIL_BINARY)
    if until is None:
        return np.ones(len(history))
    ends = history["steps"].to_numpy(np.float64)
    starts = np.concatenate([[0], ends[:-1]])
    return np.clip((until - starts) / (ends - starts), 0, 1)


def _table(setting: str, runs: Sequence[Trained]) -> list[Table]:
    """A table of the runs that can be counted, if there are any."""
    of_epochs = []
    for run in runs:
        if run.has_predictions and run.run.history.is_file():
            history = read_history(run.run.history)
            counted = count_operations(run.loaded, run.sample)
            # Earlier versions did not record it.
            if counted is not None and "experts_evaluated" in history:
                counts = flops_of_training(counted, history, run.config)
                of_epochs.append((run, counts))
    if not of_epochs:
        return []
    reference = next(
        (counts for run, counts in of_epochs if run.config.gate == REFERENCE),
        None,
    )
    rows = [
        [
            run.model,
            str(len(counts)),
            f"{np.mean(counts) / 1000:,.0f}K",
            *_relative(counts, reference),
        ]
        for run, counts in of_epochs
    ]
    header = ["model", "epochs", "FLOPs per example"]
    if reference is not None:
        header += ["per example / top-k", "training / top-k"]
    return [Table(setting, header, rows)]


def _relative(
    counts: Sequence[float], reference: Sequence[float] | None
) -> list[str]:
    """Operations per example, and of all epochs, relative to the reference."""
    if reference is None:
        return []
    return [
        f"{np.mean(counts) / np.mean(reference):.2f}",
        f"{np.sum(counts) / np.sum(reference):.2f}",
    ]
