"""Trials needed to tune a gate: the papers' bootstrap."""

from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import by_setting

RESAMPLES = 1000


def tuning_cost(trained: Sequence[Trained]) -> Section | None:
    """Draws the test loss that a number of trials leads to, for each gate.

    Args:
        trained: The finished trainings; only trials of sweeps count.

    References:
        Ibrahim, Chen, Hazimeh, Ponomareva, Zhao, Mazumder. COMET: Learning
        Cardinality Constrained Mixture of Experts with Trees and Local Search.
        KDD 2023, section 5.1.2, figure 2 and appendix F.
    """
    searched = [run for run in trained if run.searched]
    tables, pictures = [], []
    for number, (setting, models) in enumerate(by_setting(searched).items()):
        curves = {model: _curve(runs) for model, runs in models.items()}
        if max(len(curve) for curve in curves.values()) < 2:
            continue
        caption = f"{setting}. {in_words(curves)}"
        pictures.append(
            Picture(f"tuning_cost_{number}", caption, _draw(curves))
        )
        tables.append(_table(setting, curves))
    text = (
        "The test loss of the trial with the best validation loss among s "
        f"random ones, drawn with replacement; mean of {RESAMPLES:,} draws. "
        "Where there are several models, a row of the table says how many "
        "trials of each reach the loss that all trials of the row's model "
        "lead to, and how many times fewer, or more, that is. Trials that were "
        "left out are not drawn."
    )
    if not pictures:
        return None
    return Section("Cost of tuning", text, tables, pictures)


def best_of_trials(
    validation: Sequence[float],
    test: Sequence[float],
    size: int,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """Returns the mean test loss of the best of a number of random trials.

    Args:
        validation: Validation losses of all trials: the best has the lowest.
        test: Their test losses.
        size: How many trials are drawn, with replacement.
        resamples: How often they are drawn.
        seed: Seed of the draws.

    Example:
    >>> round(best_of_trials([0.5, 0.4], [0.52, 0.43], size=64), 6)
    0.43
    """
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(validation), (resamples, size))
    chosen = np.argmin(np.asarray(validation)[drawn], axis=1)
    losses = np.asarray(test)[drawn[np.arange(resamples), chosen]]
    return float(losses.mean())


def trials_to_reach(curve: Sequence[float], loss: float) -> int | None:
    """Returns the first number of trials, from 1, with at most that loss.

    Example:
    >>> trials_to_reach([0.5, 0.42, 0.41], 0.42), trials_to_reach([0.5], 0.4)
    (2, None)
    """
    reached = np.flatnonzero(np.asarray(curve) <= loss)
    return int(reached[0]) + 1 if len(reached) else None


def in_words(curves: Mapping[str, Sequence[float]]) -> str:
    """Says which model has the lowest loss, and what its trials have brought.

    Args:
        curves: By model, the loss for 1, 2, ... trials.

    Example:
    >>> in_words({"top-k": [0.5, 0.45], "comet": [0.42, 0.4]})
    'Lowest with all trials: comet, 40.00 with 2 trials, 2.00 below one \
random trial; above it top-k by 5.00 with 2 trials.'
    """
    ranked = sorted(curves, key=lambda model: curves[model][-1])
    lowest, *rest = ranked
    curve = curves[lowest]
    text = f"Lowest with all trials: {lowest}, {100 * curve[-1]:.2f}"
    text += f" with {_trials(curve)}"
    if len(curve) > 1:
        gained = 100 * (curve[0] - curve[-1])
        side = "below" if gained >= 0 else "above"
        text += f", {abs(gained):.2f} {side} one random trial"
    above = [
        f"{model} by {100 * (curves[model][-1] - curve[-1]):.2f} "
        f"with {_trials(curves[model])}"
        for model in rest
    ]
    return text + (f"; above it {', '.join(above)}." if above else ".")


def _trials(curve: Sequence[float]) -> str:
    return f"{len(curve):,} trial" + ("" if len(curve) == 1 else "s")


def _curve(runs: Sequence[Trained]) -> list[float]:
    """The loss for 1, 2, ... trials, as many as there are."""
    validation = [run.validation_loss for run in runs]
    test = [run.test_loss for run in runs]
    return [
        best_of_trials(validation, test, size + 1) for size in range(len(runs))
    ]


def _table(setting: str, curves: dict[str, list[float]]) -> Table:
    rivals = curves if len(curves) > 1 else {}
    rows = [
        [
            model,
            str(len(curve)),
            f"{100 * curve[-1]:.2f}",
            *(share_of_trials(rival, curve) for rival in rivals.values()),
        ]
        for model, curve in curves.items()
    ]
    titles = [f"trials of {rival}" for rival in rivals]
    header = ["model", "trials", "test loss x 100", *titles]
    return Table(f"{setting}: trials to the same loss", header, rows)


def share_of_trials(curve: Sequence[float], rival: Sequence[float]) -> str:
    """Says how many trials lead to the loss of all of a rival's trials.

    Args:
        curve: The loss for 1, 2, ... trials.
        rival: The rival's.

    Example:
    >>> share_of_trials([0.5, 0.4], [0.7, 0.6, 0.5, 0.5])
    '1 (4.0x fewer)'
    >>> share_of_trials([0.5, 0.4, 0.3], [0.6, 0.3])
    '3 (1.5x more)'
    >>> share_of_trials([0.5, 0.4], [0.6, 0.4])
    '2'
    """
    needed = trials_to_reach(curve, rival[-1])
    if needed is None:
        return "not reached"
    if needed < len(rival):
        return f"{needed} ({len(rival) / needed:.1f}x fewer)"
    if needed > len(rival):
        return f"{needed} ({needed / len(rival):.1f}x more)"
    return str(needed)


def _draw(curves: dict[str, list[float]]) -> Figure:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axis = figure.subplots()
    for model, curve in curves.items():
        sizes = range(1, len(curve) + 1)
        losses = [100 * loss for loss in curve]
        axis.plot(sizes, losses, "o-", ms=3, label=model)
    axis.set(xlabel="Trials", ylabel="Test loss of the best, x 100")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    return figure
