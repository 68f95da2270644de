from collections.abc import Sequence

from recsys.reporting.section import Section
from recsys.reporting.section import Table
from recsys.reporting.trained import Trained
from recsys.reporting.trained import best_runs


def best_trials(trained: Sequence[Trained]) -> Section | None:
    """Says with which hyperparameters each model was best.

    Args:
        trained: The finished trainings; only trials of sweeps count.
    """
    searched = [run for run in trained if run.searched]
    tables = [
        _table(setting, runs) for setting, runs in best_runs(searched).items()
    ]
    text = (
        "The trial of each model with the lowest validation loss, and what was "
        "drawn for it; what all trials of a sweep share is in its sweep.json."
    )
    return Section("Best trials", text, tables) if tables else None


def _table(setting: str, runs: Sequence[Trained]) -> Table:
    names = list(
        dict.fromkeys(name for run in runs for name in run.hyperparameters)
    )
    losses = ["validation loss x 100", "test loss x 100"]
    rows = [
        [
            run.model,
            run.run.folder.name,
            f"{100 * run.validation_loss:.2f}",
            f"{100 * run.test_loss:.2f}",
            *(_shown(run.hyperparameters.get(name)) for name in names),
        ]
        for run in runs
    ]
    titles = [name.removeprefix("gate_options.") for name in names]
    return Table(setting, ["model", "trial", *losses, *titles], rows)


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
