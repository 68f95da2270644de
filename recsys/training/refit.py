"""The second training of a run, on the training and validation splits."""

import shutil
from collections.abc import Mapping
from dataclasses import replace

from recsys.config.resolved_config import LAST
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.files.atomic import replacing
from recsys.measuring.curves import read_history
from recsys.measuring.epoch_choice import EpochChoice
from recsys.models.build import refill_catalogue
from recsys.models.model_file import load_model_file
from recsys.models.model_file import load_weights
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.callbacks.better_weights import AVERAGED
from recsys.training.data_parallel import distributed
from recsys.training.data_parallel import process_share
from recsys.training.first_training import FirstTraining
from recsys.training.fit_tower import refit_tower
from recsys.training.fit_tower import tower_costs
from recsys.training.fit_towers import fit_towers_alone
from recsys.training.random_state import begin_random_state
from recsys.training.train_model import release
from recsys.training.train_model import train_model
from recsys.training.warm_start import WarmStart

HISTORY = "refit_history.csv"


def check_refit(config: TrainConfig) -> None:
    """Checks that a run can be refitted, where it is to be.

    Raises:
        ValueError: It has several processes.
    """
    count = process_share(config).count
    if config.refit and count > 1:
        raise ValueError(
            "`refit` must be False for several processes that train one model. "
            f"Received: refit=True, in {count} processes"
        )


def refit_model(
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
    unknown_rates: Mapping[str, float],
) -> None:
    """Trains the model of a run anew, for as many epochs as were best.

    It begins as the first training did, with its seed and learning rates, and
    is not validated. It has a run folder of its own within that of the run,
    from which it goes on after an interruption.

    Args:
        run: The run, trained.
        config: Its configuration, resolved.
        dataset: The data set, with the validation split in its training split.
        start: What the run went on from; `None` for one that began anew.
        unknown_rates: By id feature, the share of rows that the first training
            had as rows of an unknown id.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    again = _run_of_refit(run)
    again.folder.mkdir(exist_ok=True)
    epochs = config.epochs
    first = FirstTraining([], unknown_rates=unknown_rates)
    if run.history.is_file():
        choice = EpochChoice.of(config, dataset.schema.tasks)
        history = read_history(run.history)
        best = choice.best_row(history)
        epochs = best + 1
        first = FirstTraining(
            [choice.cost(value) for value in history[choice.column]],
            AVERAGED in history and bool(history[AVERAGED][best]),
            unknown_rates,
        )
    of_towers = tower_costs(run, config)
    counts = [str(epochs)] if run.history.is_file() else []
    counts += [] if of_towers is None else [f"{len(of_towers)} of the towers"]
    announce(
        "Training again on the training and validation splits, epochs: "
        + ", ".join(counts)
    )
    out = str(again.folder)
    once = replace(config, out=out, epochs=epochs, select=LAST)
    train_model(again, once, dataset, start, first, of_towers)
    with replacing(run.model) as unfinished:
        shutil.copyfile(again.model, unfinished)
    if again.optimizer.is_file():
        with replacing(run.optimizer) as unfinished:
            shutil.copyfile(again.optimizer, unfinished)
    if again.history.is_file():
        with replacing(run.folder / HISTORY) as unfinished:
            shutil.copyfile(again.history, unfinished)


def refit_towers(run: Run, config: ResolvedConfig, dataset: AnyDataset) -> None:
    """Trains the towers of a run anew, for as many epochs as were best.

    They begin where they began before. The tasks stay as they are, and so do
    the vocabularies: ids that only validation rows have are not learned.

    Args:
        run: The run, trained.
        config: Its configuration, resolved.
        dataset: The data set, with the validation split in its training split.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    costs = tower_costs(run, config)
    assert costs is not None, "of towers that are trained by themselves"
    announce(
        "Training the towers again on the training and validation splits, "
        f"epochs: {len(costs)}"
    )
    again = _run_of_refit(run)
    again.folder.mkdir(exist_ok=True)
    with distributed(config, len(dataset.split("train"))):
        begin_random_state(config.seed)
        begun = load_model_file(run.before_towers)
        assert isinstance(begun, TwoTower), "with towers"
        refill_catalogue(config, dataset, begun)
        if config.sequence_tower is not None:
            goes_on = config.warm_start is not None
            refit_tower(begun, again, config, dataset, len(costs), goes_on)
        else:
            fit_towers_alone(begun, again, config, dataset, costs)
            load_weights(begun, again.model)
        ranker = run.load_two_tower()
        for variable, source in zip(
            ranker.retrieval.variables, begun.retrieval.variables, strict=True
        ):
            variable.assign(source)
        run.save_model(ranker)
        if begun.compiled:
            release(begun)


def has_begun_refit(run: Run) -> bool:
    """Returns whether the first training of a run is over."""
    return _run_of_refit(run).folder.is_dir()


def remove_refit(run: Run) -> None:
    """Removes what a refit is resumed from."""
    shutil.rmtree(_run_of_refit(run).folder)


def _run_of_refit(run: Run) -> Run:
    return Run(run.folder / "refit")
