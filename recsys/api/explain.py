from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from recsys import plots
from recsys.data import load
from recsys.data.streaming.split_stream import SplitStream
from recsys.errors.bounds import MOST_REPEATS
from recsys.errors.bounds import check_count
from recsys.errors.bounds import check_seed
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonObject
from recsys.files.json_files import write_json
from recsys.files.output_lock import sole_writer
from recsys.measuring.loss_growths import TOTAL
from recsys.measuring.loss_growths import growth_by_feature
from recsys.measuring.loss_growths import loss_growths
from recsys.measuring.measure import trained_loss
from recsys.measuring.measuring import Measuring
from recsys.models.scorer import Scorer
from recsys.runs.run import Run

MOST_ROWS = 1 << 20


def explain(
    run: str | Path,
    data: str | Path,
    split: str = "test",
    repeats: int = 3,
    seed: int = 0,
) -> JsonObject:
    """Measures how much the model of a run relies on each feature.

    The importance of a feature is by how much the loss grows when its column is
    shuffled among the rows: they keep its values, but not which row has which.
    What two features tell alike, neither has alone. The run folder gets
    `importance.json`, what is returned, and `plots/importance.png`. Of a split
    that is too large to be held in memory, it is a sample of 1,048,576 rows.

    Args:
        run: Run folder.
        data: Data folder, or "synthetic".
        split: "train", "validation" or "test".
        repeats: How often each column is shuffled. Defaults to 3.
        seed: Seed of the order of the rows. Defaults to 0.

    Returns:
        "split", "rows" and "repeats"; "total", for each feature the "mean" of
        how much the weighted loss grows and its "deviation" over the repeats,
        the most important feature first; "tasks", the same for the loss of each
        task; "units", what these losses are measured in.

    Raises:
        DataError: The data are missing or wrong.
        FileError: A file of the run is broken.
        RunError: There is no trained run on tables in the folder, or one
            whose tasks were not trained, or another process is writing to it.
        ValueError: `repeats` is not between 1 and 1,000,000, or `seed` is
            negative or too large.

    References:
        Breiman. Random Forests. Machine Learning 45, 2001, section 10.
        Fisher, Rudin, Dominici. All Models are Wrong, but Many are Useful.
        JMLR 20 (177), 2019.
    """
    check_count("repeats", repeats, MOST_REPEATS)
    check_seed(seed)
    folder = Run(run)
    config = folder.read_config()
    with sole_writer(folder.folder):
        check_no_links(folder.folder)
        model = folder.load_ranker()
        model.check_trained_tasks(folder.folder)
        folder.check_weighs(config, model)
        dataset = load(data)
        model.check_fits(dataset)
        rows = dataset.split(split)
        if isinstance(rows, SplitStream):
            rows = rows.sample(min(MOST_ROWS, len(rows)), random_state=seed)
        assert isinstance(rows, pd.DataFrame), "a ranker fits tables alone"
        scorer = Scorer(model)
        # Constants are not measured anew in each shuffling.
        measured = replace(
            Measuring.of(model, config, dataset.schema), constants={}
        )

        def losses(table: pd.DataFrame) -> dict[str, float]:
            return _losses(measured.measure(scorer.score(table), rows))

        growths = loss_growths(
            losses, rows, list(model.features), _shuffled, repeats, seed
        )
        importance = {
            "split": split,
            "rows": len(rows),
            "repeats": repeats,
            "total": growth_by_feature(growths, TOTAL),
            "tasks": {
                task: growth_by_feature(growths, task) for task in model.tasks
            },
            "units": {
                task: kind.unit(model.target_scales.get(task))
                for task, kind in model.tasks.items()
            },
        }
        write_json(folder.folder / "importance.json", importance)
        folder.plots.mkdir(exist_ok=True)
        figure = plots.importance(importance)
        plots.save(figure, folder.plots / "importance.png")
    return importance


def _losses(metrics: JsonObject) -> dict[str, float]:
    """The weighted loss, and that of each task; 0 where it has no label."""
    by_task = {
        task: trained_loss(values) or 0.0
        for task, values in metrics["tasks"].items()
    }
    return {TOTAL: metrics["loss"], **by_task}


def _shuffled(
    rows: pd.DataFrame, name: str, generator: np.random.Generator
) -> pd.DataFrame:
    order = generator.permutation(len(rows))
    return rows.assign(**{name: rows[name].array[order]})
