from collections.abc import Sequence

from keras_moe.callbacks import load_heat_map
from keras_moe.callbacks import weight_curves
from recsys.measuring.curves import read_weights
from recsys.reporting.section import Picture
from recsys.reporting.section import Section
from recsys.reporting.trained import Trained
from recsys.reporting.trained import titled_best_runs


def routing(trained: Sequence[Trained]) -> Section | None:
    """Draws how the gates came to weigh the experts, from the run folders.

    Args:
        trained: The finished trainings; the best of each model is drawn.

    References:
        Hazimeh et al., DSelect-k: Differentiable Selection in the Mixture of
        Experts with Applications to Multi-Task Learning, NeurIPS 2021, figures
        2 and C.6.
    """
    pictures: list[Picture] = []
    for title, run in titled_best_runs(trained):
        if run.run.weights.is_file():
            pictures += _draw(run, title, len(pictures))
    text = (
        "The mean weight of each expert over a sample of the validation split, "
        "for the best run of each model by validation loss: of each task over "
        "the epochs, and of all tasks after the last epoch."
    )
    return Section("Routing", text, pictures=pictures) if pictures else None


def _draw(run: Trained, title: str, number: int) -> list[Picture]:
    table = read_weights(run.run.weights)
    by_task = {
        str(task): rows.pivot(index="epoch", columns="expert", values="weight")
        for task, rows in table.groupby("task", sort=False)
    }
    epochs = next(iter(by_task.values())).index.tolist()
    curves = {task: weights.to_numpy() for task, weights in by_task.items()}
    last = {task: weights[-1] for task, weights in curves.items()}
    return [
        Picture(
            f"weights_{number}",
            f"{title}: weights over the epochs",
            weight_curves(curves, epochs),
        ),
        Picture(
            f"weights_{number + 1}",
            f"{title}: weights after the last epoch",
            load_heat_map(
                last,
                "Mean weight of each expert",
                label="Mean weight (%,\ngrey: none)",
            ),
        ),
    ]
