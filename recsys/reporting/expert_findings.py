"""What is wrong with the experts of a run, and which option helps."""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from recsys.config.resolved_config import ResolvedConfig
from recsys.measuring.measure import routing_figures
from recsys.measuring.routing_warnings import balance_options
from recsys.measuring.routing_warnings import idle_tasks
from recsys.measuring.routing_warnings import routing_advice
from recsys.models.expert_diagnosis import ExpertBank
from recsys.models.expert_diagnosis import ExpertDiagnosis
from recsys.models.expert_levels import ROUTED

# From this share of dead units on, an expert is named.
MOST_DEAD_UNITS = 0.5
# From this share of the gradient on, a task is said to have it alone.
MOST_GRADIENT = 0.8
# Below this part of an equal share, a task is said to have none.
LEAST_GRADIENT = 0.1
# So many experts are listed: those of the least and those of the most load.
MOST_LISTED = 32


class Finding(NamedTuple):
    """Something that is wrong with the experts of a run.

    Attributes:
        kind: "collapse", "dead experts", "dead units" or "gradient".
        text: What it is.
        advice: The option that helps.
    """

    kind: str
    text: str
    advice: str


def findings(
    config: ResolvedConfig, measured: ExpertDiagnosis
) -> Iterator[Finding]:
    """Yields what is wrong with the experts of a run.

    Gates that give all rows the same weights by design neither collapse nor
    have dead experts.

    Args:
        config: The configuration of the run.
        measured: What `diagnose` returns for its model.
    """
    if not measured.static:
        yield from _collapse(config, measured)
        yield from _dead_experts(config, measured.banks)
    yield from _dead_units(measured.banks)
    yield from _gradient(config, measured.gradient_shares())


def _collapse(
    config: ResolvedConfig, measured: ExpertDiagnosis
) -> Iterator[Finding]:
    use = {task: measured.use[task] for task in config.task_weights}
    metrics = {
        "routing": routing_figures(use),
        "experts_per_example_by_task": {
            task: np.mean([level.experts_per_row for level in levels])
            for task, levels in use.items()
        },
    }
    options = [routing_advice(config), *balance_options(config)]
    for task, text in idle_tasks(config, metrics):
        yield Finding(
            "collapse",
            f"the gate of {task!r} routes by nothing, {text}",
            " or ".join(dict.fromkeys(options)),
        )


def _dead_experts(
    config: ResolvedConfig, banks: Sequence[ExpertBank]
) -> Iterator[Finding]:
    names = _expert_names(banks, [bank.dead for bank in banks])
    if not names:
        return
    advice = " or ".join(balance_options(config)) or "another --seed"
    total = sum(len(bank.dead) for bank in banks if bank.name == ROUTED)
    if total - len(names) > 1:  # Of a `MoE` or `MMoE`.
        advice += (
            "; or leave them out, recsys compress --experts "
            f"{total - len(names)}"
        )
    yield Finding(
        "dead experts", f"no row gives weight to {_listed(names)}", advice
    )


def _dead_units(banks: Sequence[ExpertBank]) -> Iterator[Finding]:
    # NaN, of experts that compute no row, is below any share.
    names = _expert_names(
        banks, [b.dead_units >= MOST_DEAD_UNITS for b in banks]
    )
    if names:
        yield Finding(
            "dead units",
            f"{MOST_DEAD_UNITS:.0%} or more of the units are zero on all rows "
            f"in {_listed(names)}",
            "a lower --learning-rate, narrower --expert-units, or "
            "--architecture home",
        )


def _gradient(
    config: ResolvedConfig, shares: dict[str, float]
) -> Iterator[Finding]:
    weighed = {t: s for t, s in shares.items() if config.task_weights[t] > 0}
    if len(weighed) < 2:
        return
    least = LEAST_GRADIENT / len(weighed)
    if max(weighed.values()) < MOST_GRADIENT and min(weighed.values()) >= least:
        return
    largest_first = sorted(weighed, key=lambda task: -weighed[task])
    text = ", ".join(f"{task!r} {weighed[task]:.1%}" for task in largest_first)
    advice = "--weighting gradnorm, or other values of --task-weight"
    if config.weighting != "fixed":
        advice = "another --weighting, or other values of --task-weight"
    yield Finding(
        "gradient",
        "the gradients of the experts in common are those of few tasks, "
        f"{text}",
        advice,
    )


def expert_name(bank: ExpertBank, number: int, levels: int) -> str:
    """Returns what an expert is called in a report.

    Args:
        bank: Its bank.
        number: Its number there, from 0.
        levels: How many levels the model has; a single one is not named.
    """
    place = f"level {bank.level}: " if levels > 1 else ""
    group = "" if bank.name == ROUTED else f"{bank.name} "
    return f"{place}{group}{number}"


def _expert_names(
    banks: Sequence[ExpertBank], chosen: Sequence[np.ndarray]
) -> list[str]:
    """The names of the experts that are chosen in each bank."""
    levels = max(bank.level for bank in banks)
    return [
        expert_name(bank, int(number), levels)
        for bank, of_bank in zip(banks, chosen, strict=True)
        for number in np.flatnonzero(of_bank)
    ]


def _listed(names: Sequence[str]) -> str:
    noun = "the expert" if len(names) == 1 else f"{len(names)} experts:"
    more = "" if len(names) <= MOST_LISTED else ", ..."
    return f"{noun} {', '.join(names[:MOST_LISTED])}{more}"
