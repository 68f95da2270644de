import gc
import warnings
from collections.abc import Mapping
from dataclasses import replace

from recsys.api.tracking import tracking
from recsys.backend import check_backend
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data import load
from recsys.data.description.description import quick_warnings
from recsys.data.labels import check_labelled
from recsys.data.labels import warn_of_missing_labels
from recsys.data.load import AnyDataset
from recsys.data.streaming.streamed_dataset import is_large
from recsys.errors import RunError
from recsys.errors.shown import printable
from recsys.files.atomic import remove_all_unfinished
from recsys.files.folders import check_no_links
from recsys.files.json_files import JsonMapping
from recsys.files.json_files import JsonObject
from recsys.files.output_lock import sole_writer
from recsys.measuring.outcome import write_outcome
from recsys.measuring.routing_warnings import warn_if_dense
from recsys.measuring.routing_warnings import warn_if_idle
from recsys.measuring.search_distance import warn_if_apart
from recsys.models.gates import typed_options
from recsys.models.unknown_rates import unknown_rates
from recsys.runs.data_file import check_data
from recsys.runs.run import Run
from recsys.tasks.task_options import with_task_options
from recsys.terminal.progress import announce
from recsys.terminal.progress import is_shown
from recsys.terminal.progress import shown_progress
from recsys.terminal.tensorflow_log import relevant_log
from recsys.training.callbacks.in_order import has_search
from recsys.training.data_parallel import process_index
from recsys.training.refit import check_refit
from recsys.training.refit import has_begun_refit
from recsys.training.refit import refit_model
from recsys.training.refit import refit_towers
from recsys.training.refit import remove_refit
from recsys.training.resolve_with_data import resolve_with_data
from recsys.training.tracking.tracked_run import TrackedRun
from recsys.training.tracking.tracked_run import check_tracker
from recsys.training.train_model import train_model
from recsys.training.warm_start import WarmStart
from recsys.training.warm_start_fields import with_fields_of_start

# About the data, at the top of a training.
_MOST_WARNINGS = 5
# What a run may be resumed with that it was not started with.
_MAY_CHANGE = (
    *("out", "checkpoint_steps", "distribute", "expert_devices", "track"),
)


def train(
    config: TrainConfig | JsonMapping, resume: bool = False
) -> JsonObject:
    """Trains a model and fills a run folder.

    The folder gets `config.json`, `model.keras` (the weights of the epoch
    that `config.select` chooses), `metrics.json`, `history.csv`,
    `tower_history.csv` (of towers that are trained by themselves),
    `weights.csv` (each task's mean expert weights after every epoch),
    `sample.npz` (rows of the validation split to draw the routing on), `plots/`
    and `tensorboard/`. Each epoch ends with a checkpoint, and with
    `checkpoint_steps` there are others within it; a training that was
    interrupted, by Ctrl-C or otherwise, goes on from there with `resume`, and
    ends as it would have without the interruption.

    With `config.refit`, another training follows, on the training and the
    validation split, for as many epochs as were best. `model.keras` and the
    test metrics are of that one, and `refit_history.csv` has its epochs; the
    other files are of the first training. With `config.refit_towers`, the
    towers alone are trained again, and `model.keras` and the test metrics have
    the tasks of the first training.

    With `config.track`, an experiment tracker gets the configuration, each
    epoch, and in the end the metrics, the files of the run but for the model,
    and a model card. A run that is resumed goes on there.

    Args:
        config: A `TrainConfig`, or a mapping of its fields.
        resume: Boolean, whether to go on with the run in `config.out`, which
            must have been started with the same configuration. Defaults to
            `False`. Refused where the data have changed since: `data.json`
            holds a fingerprint of them, the SHA-256 of each file.

    Returns:
        The content of `metrics.json`: for "validation" and "test", what
        `recsys.measuring.measure.measure` returns; after permutation local
        search "permutation_distance", how far from a permutation its matrix
        was at its end, in the Frobenius norm. Where there are several
        permutations, it is a number for each, by name. Of several processes,
        the first alone measures and writes; the others return `{}`.

    Raises:
        DataError: The data are missing or wrong.
        NonFiniteLossError: The loss became NaN or infinite.
        RunError: The run folder is not empty, or the run in it cannot be
            resumed, or is finished, or another process is writing to it; or
            the experiment tracker cannot be reached.
        ValueError, TypeError: A field of the configuration is wrong.
        KeyboardInterrupt: After Ctrl-C; the run folder is usable.
    """
    if not isinstance(config, TrainConfig):
        fields = with_fields_of_start(config, resume)
        config = TrainConfig.from_mapping(fields)
    check_backend(config.backend)
    check_tracker(config.track)
    typed_options(config.gate, config.gate_options)
    run = Run(config.out)
    with relevant_log():
        if process_index(config):
            with warnings.catch_warnings(), shown_progress(False):
                warnings.simplefilter("ignore")  # The first one shows them.
                train_model(run, *_prepared(config, run, resume))
            return {}
        with sole_writer(config.out):
            check_no_links(config.out)
            remove_all_unfinished(run.folder)
            _check_folder(run, resume)
            return _train(*_prepared(config, run, resume), run)


def _prepared(
    config: TrainConfig, run: Run, resume: bool
) -> tuple[ResolvedConfig, AnyDataset, WarmStart | None]:
    """Returns the resolved configuration, the data and where to begin."""
    if config.checkpoint_steps is not None and has_search(config):
        raise ValueError(
            "`checkpoint_steps` must be left out for a gate with permutation "
            "local search, whose temperature follows whole epochs. "
            f"Received: checkpoint_steps={config.checkpoint_steps}, "
            f"gate={config.gate!r}"
        )
    check_refit(config)
    if resume:
        config = _with_recorded_table_optimizer(config, run.read_recorded())
    if config.streaming is None:
        config = replace(config, streaming=is_large(config.data))
    announce(f"Reading the data in {printable(config.data)}")
    dataset = load(config.data, streaming=config.streaming).with_train_rows(
        config.train_rows
    )
    start = WarmStart.of(config, run)
    if start is not None:
        start.check_columns(dataset.schema)
    resolved = resolve_with_data(config, dataset)
    if resolved.task_options:
        tasks = with_task_options(dataset.schema.tasks, resolved.task_options)
        dataset = replace(dataset, schema=dataset.schema.with_tasks(tasks))
    if start is not None:
        start.check(resolved, dataset)
        start.warn_if_validation_is_known(resolved)
    _check_labels(dataset, resolved.task_weights)
    if resume:
        _check_same(resolved, run.read_recorded())
        check_data(run.data, resolved.data)
    return resolved, dataset, start


def _train(
    config: ResolvedConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
    run: Run,
) -> JsonObject:
    """Trains in a run folder that nobody else writes to."""
    if start is None and config.data != "synthetic":
        _announce_warnings(config.data, dataset)
    with tracking(run, config, dataset) as tracked:
        # What is measured is read from the run. Of large tables, memory has no
        # room for a second model.
        if config.finds_by_validation:
            before = _before_refit(config, dataset, start, run, tracked)
            del start
            gc.collect()
            dataset = _refit(run, config, dataset)
            gc.collect()
            announce("Measuring the test split, and drawing plots")
            metrics = write_outcome(run, config, dataset, ["test"], before)
            remove_refit(run)
        else:
            train_model(run, config, dataset, start, tracked=tracked)
            del start
            gc.collect()
            announce(
                "Measuring the validation and the test split, and drawing plots"
            )
            metrics = write_outcome(
                run, config, dataset, ["validation", "test"]
            )
        run.remove_checkpoint()
    if config.trains_tasks:
        warn_if_dense(config, metrics["validation"])
        warn_if_apart(metrics)
        warn_if_idle(config, metrics["validation"])
    return metrics


def _refit(run: Run, config: ResolvedConfig, dataset: AnyDataset) -> AnyDataset:
    """Trains a model, or its towers, again, on the validation split, too.

    Returns:
        The data set with that in its training split.
    """
    both = dataset.with_validation_in_training()
    if config.refit_towers:
        refit_towers(run, config, both)
        return both
    rates = unknown_rates(config, run.load_model(), dataset)
    gc.collect()
    refit_model(run, config, both, WarmStart.of(config, run), rates)
    return both


def _announce_warnings(source: str, dataset: AnyDataset) -> None:
    """Prints what in the data makes a training fail or its metrics lie."""
    lines = quick_warnings(dataset) if is_shown() else []
    for line in lines[:_MOST_WARNINGS]:
        announce(f"Warning: {printable(line)}")
    if lines:
        more = len(lines) - _MOST_WARNINGS
        announce(
            (f"{more} more warnings. " if more > 0 else "")
            + f"All about the data: recsys describe --data {printable(source)}"
        )


def _before_refit(
    config: ResolvedConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
    run: Run,
    tracked: TrackedRun | None,
) -> JsonObject:
    """Trains the model that says how long a refit takes.

    Returns:
        Its metrics of the validation split, which the refit learns. A run that
        was interrupted in its refit has them.
    """
    if not has_begun_refit(run):
        train_model(run, config, dataset, start, tracked=tracked)
        announce("Measuring the validation split")
        write_outcome(run, config, dataset, ["validation"])
    return {"validation": run.read_metrics()["validation"]}


def _check_labels(
    dataset: AnyDataset, task_weights: Mapping[str, float]
) -> None:
    """Checks that each split has labels of a task that counts."""
    schema = dataset.schema
    name = schema.place
    counting = [task for task, weight in task_weights.items() if weight]
    truths = {
        split: rows[schema.truth_columns]
        for split, rows in dataset.splits.items()
    }
    for split, truth in truths.items():
        check_labelled(
            truth, counting, f"{name}, {split} split", schema.row_weights
        )
    warn_of_missing_labels(truths, schema.tasks, name)


def _check_folder(run: Run, resume: bool) -> None:
    if resume:
        if run.is_finished:
            raise RunError(f"{run.folder}: the run is finished already")
    elif run.folder.exists() and any(run.folder.iterdir()):
        raise RunError(
            "`out` must be a new or empty folder, or the folder of an "
            "interrupted run together with `resume`. "
            f"Received: out={str(run.folder)!r}, a folder with files in it"
        )


def _with_recorded_table_optimizer(
    config: TrainConfig, started: TrainConfig
) -> TrainConfig:
    """A run that was started under another default goes on with that one."""
    if config.table_optimizer or config.optimizer != started.optimizer:
        return config
    min_rows = config.min_table_rows or started.min_table_rows
    name = started.table_optimizer
    return replace(config, table_optimizer=name, min_table_rows=min_rows)


def _check_same(config: ResolvedConfig, started: TrainConfig) -> None:
    """Checks that a run is resumed with what it was started with."""
    was = started.to_mapping()
    for name, value in config.to_mapping().items():
        if name not in _MAY_CHANGE and value != was[name]:
            raise ValueError(
                f"`{name}` must be what the run was started with, "
                f"{was[name]!r}, to resume it. Received: {name}={value!r}"
            )
