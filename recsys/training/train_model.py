from collections.abc import Sequence

import keras

from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.errors.shown import printable
from recsys.measuring.outcome import write_outcome
from recsys.models.build import build_model
from recsys.models.build import refill_catalogue
from recsys.models.label_deviations import fill_statistics
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.models.unknown_rates import unknown_rates
from recsys.private_names import assign_any_shape
from recsys.retrieval.feature_roles import show_roles
from recsys.runs.data_file import write_data
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.data_parallel import distributed
from recsys.training.data_parallel import process_share
from recsys.training.first_training import FirstTraining
from recsys.training.fit import fit
from recsys.training.fit_tower import fit_tower
from recsys.training.fit_tower import refit_tower
from recsys.training.fit_towers import fit_towers
from recsys.training.fit_towers import keep_before_towers
from recsys.training.random_state import begin_random_state
from recsys.training.sharded_checkpoint import is_sharded
from recsys.training.tracking.tracked_run import TrackedRun
from recsys.training.warm_start import WarmStart


def train_model(
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
    first: FirstTraining | None = None,
    tower_costs: Sequence[float] | None = None,
    tracked: TrackedRun | None = None,
) -> None:
    """Builds a model and trains it; the best one is in the run then.

    Args:
        run: The folder of its run, where that has a checkpoint, training goes
            on from there.
        config: The configuration, resolved.
        dataset: The data set to train on.
        start: What the run goes on from; `None` for one that begins anew.
        first: For a model that is not validated, what it takes from a training
            that was.
        tower_costs: What was to be low in each epoch of its towers there, where
            they were trained by themselves.
        tracked: The run of an experiment tracker that the epochs go to. None
            unless given.

    Raises:
        DataError: The data do not fit the configuration.
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    share = process_share(config)
    writes = share.index == 0
    with distributed(config, len(dataset.split("train"))):
        begin_random_state(config.seed)
        announce("Building the model")
        source, is_counted = (
            (start.model, start.kept) if start else (None, False)
        )
        model = build_model(config, dataset, source, is_counted)
        is_sharded(model.variables)  # What it needs is there, or an error.
        if writes:
            run.write_config(config)
            write_data(run.data, config.data)
        if start is not None:
            start.begin(model, writes)
            refill_catalogue(config, dataset, model)
        statistics = fill_statistics(
            model,
            dataset.split("train"),
            dataset.schema.row_weights,
            config.seed,
            source,
        )
        if isinstance(model, Ranker):
            _set_unknown_rates(config, model, dataset, first)
        if writes and isinstance(model, TwoTower):
            show_roles(model.retrieval.roles)
        try:
            if config.sequence_tower is not None:
                assert isinstance(model, TwoTower), "with retrieval"
                goes_on = start is not None
                if first is None:
                    keep_before_towers(model, run, config)
                    fit_tower(model, run, config, dataset, goes_on)
                else:
                    assert tower_costs is not None, "of a tower"
                    epochs = len(tower_costs)
                    refit_tower(model, run, config, dataset, epochs, goes_on)
            given = (
                model,
                run,
                config,
                dataset,
                start,
                first,
                tracked,
                statistics,
            )
            in_parts = _in_parts(config, tower_costs)
            if not config.trains_tasks:
                run.save_model(model)
            elif in_parts:
                assert isinstance(model, TwoTower), "with retrieval"
                with model.only("tasks"):
                    fit(*given)
            else:
                fit(*given)
            if in_parts:
                assert isinstance(model, TwoTower), "with retrieval"
                fit_towers(model, run, config, dataset, tower_costs)
        except KeyboardInterrupt:
            # Alone, a process cannot run what all of them share.
            if share.count == 1 and first is None:
                _save_what_there_is(model, run, config, dataset)
            raise
        if model.compiled:
            release(model)


def _set_unknown_rates(
    config: ResolvedConfig,
    model: Ranker,
    dataset: AnyDataset,
    first: FirstTraining | None,
) -> None:
    """Says how many training rows have an unknown id: as many as before."""
    if first is not None:
        model.set_unknown_rates(first.unknown_rates)
        return
    rates = unknown_rates(config, model, dataset)
    model.set_unknown_rates(rates)
    for name, rate in rates.items():
        if rate > 0:
            announce(
                f"{rate:.0%} of the training rows have an unknown "
                f"{printable(name)} each epoch, as validation rows have some"
            )


def _in_parts(
    config: ResolvedConfig, tower_costs: Sequence[float] | None
) -> bool:
    """Whether two towers are trained after the tasks, or were in a refit."""
    in_parts = config.select == PARTS or tower_costs is not None
    return config.trains_towers and in_parts


def _save_what_there_is(
    model: MultiTaskModel, run: Run, config: ResolvedConfig, dataset: AnyDataset
) -> None:
    """Leaves a run that was interrupted with a model and its metrics."""
    if not run.model.is_file():
        if isinstance(model, TwoTower):
            update_index(model)
        run.save_model(model)
    write_outcome(run, config, dataset, ["validation"])


def release(model: keras.Model) -> None:
    """Frees the memory of a model that has been trained and is not run again.

    It may outlive the last reference to the model: TensorFlow keeps every
    function it has compiled that holds a custom gradient, such as those of
    sparse experts, until the process ends, and with it the variables that the
    function uses. On JAX, the arrays were seen to stay as well.

    Args:
        model: A compiled model, which cannot be used any more.
    """
    for variable in (*model.variables, *model.optimizer.variables):
        if variable.shape:
            _EMPTY[keras.backend.backend()](variable)


def _empty_on_tensorflow(variable: keras.Variable) -> None:
    import tensorflow as tf

    nothing = tf.zeros((0, *variable.shape[1:]), variable.dtype)
    strategy = tf.distribute.get_strategy()
    for replica in strategy.experimental_local_results(variable.value):
        assign_any_shape(replica, nothing)


def _empty_on_jax(variable: keras.Variable) -> None:
    variable.value.delete()


def _empty_on_torch(variable: keras.Variable) -> None:
    """PyTorch lets go of what nothing refers to."""


_EMPTY = {
    "tensorflow": _empty_on_tensorflow,
    "jax": _empty_on_jax,
    "torch": _empty_on_torch,
}
