from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.statistics import mean_and_error
from recsys.reporting.trained import Trained
from recsys.reporting.trained import by_setting


def k_sweep(trained: Sequence[Trained]) -> Section | None:
    """Draws the test loss over k for the gates trained with several k.

    Args:
        trained: The finished trainings.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, section 4.3, figure 4.
    """
    pictures = []
    for number, (setting, models) in enumerate(by_setting(trained).items()):
        runs = [run for of_model in models.values() for run in of_model]
        losses = _losses(runs)
        if any(len(by_k) > 1 for by_k in losses.values()):
            figure = _draw(losses)
            caption = f"{setting}. {in_words(losses)}"
            pictures.append(Picture(f"k_sweep_{number}", caption, figure))
    text = (
        "Test loss (times 100) over the number k of experts that a gate "
        "chooses: means and standard errors of all runs with that k."
    )
    if not pictures:
        return None
    return Section("Number of experts chosen", text, pictures=pictures)


def in_words(losses: Mapping[str, Mapping[int, Sequence[float]]]) -> str:
    """Says at which k each gate has its lowest loss, and by how much.

    Args:
        losses: The losses times 100, by gate and k.

    Example:
    >>> in_words({"top-k": {2: [50.0], 4: [40.0, 42.0]}})
    'top-k: lowest at k = 4, 41.00 ± 1.00; highest at k = 2, 50.00.'
    """
    sentences = []
    for gate, by_k in losses.items():
        ordered = sorted(by_k, key=lambda k: float(np.mean(by_k[k])))
        low, high = ordered[0], ordered[-1]
        text = f"{gate}: lowest at k = {low}, {mean_and_error(by_k[low], 2)}"
        if low != high:
            highest = mean_and_error(by_k[high], 2)
            text += f"; highest at k = {high}, {highest}"
        sentences.append(f"{text}.")
    return " ".join(sentences)


def _losses(runs: Sequence[Trained]) -> dict[str, dict[int, list[float]]]:
    """The losses times 100, by gate and k."""
    losses: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        by_k = losses.setdefault(run.config.gate, {})
        by_k.setdefault(run.config.k, []).append(100 * run.test_loss)
    return losses


def _draw(losses: Mapping[str, Mapping[int, Sequence[float]]]) -> Figure:
    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    for gate, by_k in losses.items():
        ks = sorted(by_k)
        means = [np.mean(by_k[k]) for k in ks]
        errors = [
            np.std(by_k[k], ddof=1) / len(by_k[k]) ** 0.5
            if len(by_k[k]) > 1
            else 0.0
            for k in ks
        ]
        axis.errorbar(ks, means, errors, fmt="o-", ms=4, capsize=3, label=gate)
    axis.set(xlabel="k", ylabel="Test loss x 100")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    return figure
