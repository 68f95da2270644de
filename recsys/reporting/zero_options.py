"""The gain of a gate's hyperparameter: trials with it, and without."""

from collections.abc import Mapping
from collections.abc import Sequence

from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import by_setting

_OPTION = "gate_options."

Sides = Mapping[str, Sequence[Trained]]


def zero_options(trained: Sequence[Trained]) -> Section | None:
    """Compares the best trials where a gate's option is 0 and where it is not.

    Args:
        trained: The finished trainings; only trials of sweeps that have
            searched such an option count.

    References:
        Ibrahim et al., MOESART: An Effective Sampling-based Router for Sparse
        Mixture of Experts, supplement S3.3, table S2 (trimmed lasso).
    """
    searched = [run for run in trained if run.searched]
    tables = []
    for setting, models in by_setting(searched).items():
        rows = [
            _row(model, option.removeprefix(_OPTION), side, runs)
            for model, trials in models.items()
            for option in _options(trials)
            for side, runs in _split(trials, option).items()
        ]
        if rows:
            header = ["model", "option", "trials", "best trial"]
            header += ["validation loss x 100", "test loss x 100"]
            tables.append(Table(setting, header, rows))
    text = (
        "The trials with the lowest validation losses of those in which an "
        "option of the gate was 0, and of those in which it was not."
    )
    return Section("Options at zero", text, tables) if tables else None


def _options(trials: Sequence[Trained]) -> list[str]:
    """The options that were 0 in some of the trials and not in others."""
    drawn = dict.fromkeys(
        name
        for trial in trials
        for name in trial.hyperparameters
        if name.startswith(_OPTION)
    )
    return [name for name in drawn if all(_split(trials, name).values())]


def _split(trials: Sequence[Trained], option: str) -> Sides:
    sides: dict[str, list[Trained]] = {"= 0": [], "> 0": []}
    for trial in trials:
        value = trial.hyperparameters.get(option)
        if isinstance(value, int | float) and not isinstance(value, bool):
            sides["> 0" if value else "= 0"].append(trial)
    return sides


def _row(
    model: str, option: str, side: str, trials: Sequence[Trained]
) -> list[str]:
    best = min(trials, key=lambda trial: trial.validation_loss)
    return [
        model,
        f"{option} {side}",
        str(len(trials)),
        best.run.folder.name,
        f"{100 * best.validation_loss:.2f}",
        f"{100 * best.test_loss:.2f}",
    ]
