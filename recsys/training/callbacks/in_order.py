import keras

from keras_moe.callbacks import PermutationSearch
from keras_moe.callbacks import RoutingMonitor
from recsys.config.resolved_config import ResolvedConfig
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.distribution.process_group import current_group
from recsys.measuring.outcome import has_routing
from recsys.measuring.sample import Sample
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.scorer import Scorer
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.training.batches import AnyBatches
from recsys.training.callbacks.better_weights import BetterWeights
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.epoch_average import EpochAverage
from recsys.training.callbacks.epoch_summaries import EpochSummaries
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.callbacks.interruption import Interruption
from recsys.training.callbacks.progress_line import ProgressLine
from recsys.training.callbacks.progress_line import Stopwatch
from recsys.training.callbacks.rate_decay import RateDecay
from recsys.training.callbacks.retrieval_index import RetrievalIndex
from recsys.training.callbacks.retrieval_validation import RetrievalValidation
from recsys.training.callbacks.same_state import SameState
from recsys.training.callbacks.steps_until_binary import StepsUntilBinary
from recsys.training.callbacks.tracking import Tracking
from recsys.training.callbacks.validation import Validation
from recsys.training.callbacks.weight_history import TaskWeightHistory
from recsys.training.callbacks.weight_history import WeightHistory
from recsys.training.first_training import FirstTraining
from recsys.training.tracking.tracked_run import TrackedRun

_TOWERS_DECAY = 0.3  # Of two towers: benchmarks/README.md has others.


def in_order(
    model: MultiTaskModel,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    batches: AnyBatches,
    checkpoint: Checkpoint,
    interruption: Interruption,
    finite_loss: FiniteLoss,
    average: EpochAverage | None = None,
    first: FirstTraining | None = None,
    tracked: TrackedRun | None = None,
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of a training in the order in which they act.

    Each sees in the logs what those before it have added.

    Args:
        model: The model, compiled.
        run: The folder of its run.
        config: The configuration, resolved.
        dataset: The data set to train on.
        batches: The batches, which are shuffled anew for each epoch.
        checkpoint: What keeps where the training is.
        interruption: What ends it after Ctrl-C.
        finite_loss: What ends it after a loss that is not finite.
        average: What keeps an average of the weights of epochs. None unless
            given.
        first: As for `train_model`.
        tracked: The run of an experiment tracker that the epochs go to. None
            unless given.
    """
    measures = first is None
    part = model.part if isinstance(model, TwoTower) else None
    ranks, finds = part != "towers", part != "tasks"
    searches = ranks and has_search(config)
    monitor = _routing_monitor(model, dataset) if ranks else None
    callbacks = [
        interruption,
        Stopwatch(),
        _shuffling(batches, checkpoint),
        finite_loss,
        _same_state(),
        _rate_decay(config, checkpoint, average, first),
        _task_weights(model),
        PermutationSearch(config.search_epochs) if searches else None,
        average,
        _validation(model, config, dataset, average, checkpoint)
        if measures and ranks
        else None,
        monitor,
        _weight_history(run, monitor, checkpoint),
        None if monitor is None else StepsUntilBinary(checkpoint.progress),
        _retrieval_index(model),
        _retrieval_validation(model, config, dataset)
        if measures and finds
        else None,
        checkpoint,
        None if tracked is None else Tracking(tracked, checkpoint),
        _tensorboard(run, checkpoint),
        _progress_line(model, config, checkpoint),
    ]
    return [callback for callback in callbacks if callback is not None]


def has_search(config: TrainConfig) -> bool:
    """Returns whether training searches for permutations."""
    searched = config.gate_choice.searched
    return searched and config.architecture != "shared-bottom"


def _shuffling(
    batches: AnyBatches, checkpoint: Checkpoint
) -> keras.callbacks.Callback:
    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: batches.shuffle(
            epoch, checkpoint.progress.step
        )
    )


def _same_state() -> keras.callbacks.Callback | None:
    group = current_group()
    return None if group is None else SameState(group)


def _rate_decay(
    config: ResolvedConfig,
    checkpoint: Checkpoint,
    average: EpochAverage | None,
    first: FirstTraining | None,
) -> keras.callbacks.Callback | None:
    factor = config.rate_decay
    if factor is None:
        # With an average, the noise of epochs is no reason to slow down.
        slows = config.trains_towers and average is None
        factor = _TOWERS_DECAY if slows else 1.0
    if factor == 1:
        return None
    return RateDecay(
        config.learning_rate,
        factor,
        checkpoint.costs if first is None else lambda: first.costs,
    )


def _task_weights(model: MultiTaskModel) -> keras.callbacks.Callback | None:
    weighting = model.weighting
    return None if weighting is None else TaskWeightHistory(weighting)


def _routing_monitor(
    model: MultiTaskModel, dataset: AnyDataset
) -> RoutingMonitor | None:
    if not has_routing(model):
        return None
    sample = Sample.of(model, dataset)
    # In one batch: a last one of another size would be compiled for, too.
    return RoutingMonitor(sample.inputs, batch_size=len(sample))


def _weight_history(
    run: Run, monitor: RoutingMonitor | None, checkpoint: Checkpoint
) -> keras.callbacks.Callback | None:
    if monitor is None or not checkpoint.writes:
        return None
    return WeightHistory(run.weights, monitor)


def _retrieval_index(model: MultiTaskModel) -> keras.callbacks.Callback | None:
    return RetrievalIndex(model) if isinstance(model, TwoTower) else None


def _validation(
    model: MultiTaskModel,
    config: ResolvedConfig,
    dataset: AnyDataset,
    average: EpochAverage | None,
    checkpoint: Checkpoint,
) -> keras.callbacks.Callback:
    schema, validation = dataset.schema, dataset.split("validation")
    truth = validation[schema.truth_columns]
    of_weights = Validation(
        Scorer(model, position=schema.position),
        validation,
        truth,
        config.task_weights,
        schema.roles(truth, config.metrics_k),
    )
    if average is None:
        return of_weights
    return BetterWeights(average, of_weights, checkpoint.choice)


def _retrieval_validation(
    model: MultiTaskModel, config: ResolvedConfig, dataset: AnyDataset
) -> keras.callbacks.Callback | None:
    # A sequence tower is trained before the tasks, and has its own.
    if not (isinstance(model, TwoTower) and config.trains_towers):
        return None
    return RetrievalValidation(model, dataset, config)


def _tensorboard(
    run: Run, checkpoint: Checkpoint
) -> keras.callbacks.Callback | None:
    if not checkpoint.writes:
        return None
    return EpochSummaries(run.tensorboard)


def _progress_line(
    model: MultiTaskModel, config: ResolvedConfig, checkpoint: Checkpoint
) -> keras.callbacks.Callback | None:
    if not checkpoint.writes:
        return None
    return ProgressLine(list(model.tasks), k=config.metrics_k)
