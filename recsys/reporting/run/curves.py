from recsys import plots
from recsys.measuring.curves import read_history
from recsys.measuring.epoch_choice import EpochChoice
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained


def curves(run: Trained) -> Section | None:
    """Draws the losses over the epochs.

    Args:
        run: The run.
    """
    if not run.run.history.is_file() or not run.has_model:
        return None
    history = read_history(run.run.history)
    tasks = run.loaded.tasks
    best = EpochChoice.of(run.config, tasks).best_row(history)
    epoch = int(history["epoch"].iloc[best])
    figure = plots.loss_curves(history, list(tasks), best)
    caption = (
        "Losses of training and validation by epoch, in all and of each task; "
        f"the dashed line is epoch {epoch}, which is kept"
    )
    return Section(
        "Learning curves",
        "The training loss is a mean over an epoch, with dropout: it may lie "
        "above that of the validation split. A validation loss that rises "
        "while the training loss falls is overfitting.",
        pictures=[Picture("loss_curves", caption, figure)],
        findings=_findings(epoch, len(history), int(history["epoch"].max())),
    )


def _findings(kept: int, epochs: int, last: int) -> list[str]:
    if epochs > 1 and kept == last:
        return [
            "The last epoch is the best one: more --epochs may lower the loss."
        ]
    return []
