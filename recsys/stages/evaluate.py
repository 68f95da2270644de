from pathlib import Path
from typing import Any

from recsys.data import load
from recsys.models.scorer import Scorer
from recsys.run import Run
from recsys.training.measure import measure


def evaluate(
    run: str | Path, data: str | Path, split: str = "test"
) -> dict[str, Any]:
    """Evaluates the model of a run on one split of a data set.

    Args:
        run: Run folder.
        data: Data folder, or "synthetic".
        split: "train", "validation" or "test".

    Returns:
        The metrics, as `measure` returns them, with the run's task weights.

    Raises:
        DataError: The data are missing or wrong.
        FileError: A file of the run is broken.
        RunError: There is no trained run in the folder.
    """
    folder = Run(run)
    config = folder.read_config()
    model = folder.load_model()
    folder.check_weighs(config, model)
    dataset = load(data)
    model.check_fits(dataset)
    rows = dataset.split(split)
    return measure(
        Scorer(model).score(rows),
        rows,
        model.tasks,
        config.task_weights,
        model.target_scales,
        model.constants,
    )
