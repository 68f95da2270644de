"""Two towers, trained after the tasks."""

import shutil
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from recsys.config.resolved_config import LAST
from recsys.config.resolved_config import RETRIEVAL
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.files.atomic import replacing
from recsys.measuring.epoch_choice import VALIDATION_RETRIEVAL
from recsys.models.model_file import load_weights
from recsys.models.two_tower import TwoTower
from recsys.retrieval.retrieval import RETRIEVAL_LOSS
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.first_training import FirstTraining
from recsys.training.fit import fit


def fit_towers(
    ranker: TwoTower,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    costs: Sequence[float] | None = None,
) -> None:
    """Trains the towers of a ranker whose tasks are at their best epoch.

    Nothing else changes, not even the tables of features that they see, where
    there are tasks that have trained them. The
    epoch with the highest ndcg is kept, and is the run's model then;
    `tower_history.csv` has all of them. An interrupted training goes on from
    its checkpoint, which is in that of the run.

    Args:
        ranker: The ranker, trained by `fit`.
        run: The folder of its run, with the model of the best epoch.
        config: The configuration, resolved.
        dataset: The data set to train on.
        costs: For towers that are not validated, what was to be low in each
            epoch of a training that was.

    Raises:
        DataError: No row of the validation split counts for retrieval.
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    after = ", on the best epoch of the tasks"
    if not ranker.has_trained_tasks:
        after = " without the tasks (--ranker trains them)"
    announce("Training the towers" + after)
    load_weights(ranker, run.model)
    keep_before_towers(ranker, run, config)
    stage = Run(run.towers)
    fit_towers_alone(ranker, stage, config, dataset, costs)
    with replacing(run.model) as unfinished:
        shutil.copyfile(stage.model, unfinished)
    with replacing(run.tower_history) as unfinished:
        history = _as_of_towers(pd.read_csv(stage.history))
        history.to_csv(unfinished, index=False)


def keep_before_towers(
    ranker: TwoTower, run: Run, config: ResolvedConfig
) -> None:
    """Keeps what a refit of the towers alone begins with, if one follows.

    Args:
        ranker: The ranker, as it is when its towers begin to be trained.
        run: The folder of its run; a model that is kept there already stays.
        config: The configuration, resolved.
    """
    if config.refit_towers and not run.before_towers.is_file():
        run.save_model(ranker, run.before_towers)


def fit_towers_alone(
    ranker: TwoTower,
    stage: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    costs: Sequence[float] | None,
) -> None:
    """Trains the towers of a ranker from where they are.

    Args:
        ranker: The ranker.
        stage: A run folder of this training's own, which gets the model, and
            from which an interrupted one goes on.
        config: The configuration, resolved.
        dataset: The data set to train on.
        costs: As that of `fit_towers`.

    Raises:
        DataError: No row of the validation split counts for retrieval.
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    stage.folder.mkdir(parents=True, exist_ok=True)
    ranker.weighting = None
    alone = replace(
        config,
        epochs=config.epochs if costs is None else len(costs),
        select=RETRIEVAL if costs is None else LAST,
        weighting="fixed",
        task_weights=dict.fromkeys(config.task_weights, 0.0),
    )
    with ranker.only("towers"):
        first = None if costs is None else FirstTraining(costs)
        fit(ranker, stage, alone, dataset, None, first)


def _as_of_towers(history: pd.DataFrame) -> pd.DataFrame:
    """The columns that the history of any tower has."""
    names = {RETRIEVAL_LOSS: "loss"} | {
        name: "val_" + name.removeprefix(VALIDATION_RETRIEVAL)
        for name in map(str, history)
        if name.startswith(VALIDATION_RETRIEVAL)
    }
    return history[["epoch", *names]].rename(columns=names)
