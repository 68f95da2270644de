from recsys.config.resolved_config import PARTS
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.measuring.epoch_choice import VALIDATION_RETRIEVAL
from recsys.measuring.epoch_choice import EpochChoice
from recsys.models.feeding import feed
from recsys.models.fold_statistics import FoldStatistics
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.two_tower import TwoTower
from recsys.runs.run import Run
from recsys.tables.row_lookups import rows_of
from recsys.tables.variable_values import spans_processes
from recsys.terminal.progress import announce
from recsys.training.batches import AnyBatches
from recsys.training.batches import StreamedBatches
from recsys.training.batches import create_batches
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.epoch_average import EpochAverage
from recsys.training.callbacks.in_order import has_search
from recsys.training.callbacks.in_order import in_order
from recsys.training.callbacks.interruption import FiniteLoss
from recsys.training.callbacks.interruption import Interruption
from recsys.training.callbacks.retrieval_validation import check_counting_rows
from recsys.training.compile_model import compile_model
from recsys.training.data_parallel import process_index
from recsys.training.first_training import FirstTraining
from recsys.training.tracking.tracked_run import TrackedRun
from recsys.training.warm_start import WarmStart


def fit(
    model: MultiTaskModel,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
    first: FirstTraining | None = None,
    tracked: TrackedRun | None = None,
    statistics: FoldStatistics | None = None,
) -> None:
    """Trains until the last epoch, or until validation stops improving.

    Args:
        model: The model, which is not compiled.
        run: The folder of its run; where that has a checkpoint, training goes
            on from there.
        config: The configuration, resolved.
        dataset: The data set to train on.
        start: What the run goes on from; `None` for one that begins anew.
        first: As for `train_model`.
        tracked: As for `train_model`.
        statistics: The target statistics of the training rows, if any.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    choice = EpochChoice.of(config, model.tasks)
    by_retrieval = choice.column.startswith(VALIDATION_RETRIEVAL)
    by_retrieval |= config.select == PARTS  # Of the towers, afterwards.
    if by_retrieval and isinstance(model, TwoTower):
        check_counting_rows(model, dataset, config.retrieval_label)
    compile_model(model, config)
    if start is not None:
        start.restore_optimizer(model)
    writes = process_index(config) == 0
    checkpoint = Checkpoint(
        run, config.patience, config.checkpoint_steps, writes, choice
    )
    average = _average(model, config, first)
    if average is not None:
        checkpoint.add(average.variables)
    checkpoint.restore(model)
    if checkpoint.is_done(config.epochs):
        return
    train, schema = dataset.split("train"), dataset.schema
    batches = create_batches(
        train, model, config, schema.row_weights, schema.position, statistics
    )
    while not checkpoint.is_done(config.epochs):
        # To `fit`, all epochs have as many steps as the first one, and one
        # that is resumed in its middle has fewer than the others.
        skip, epoch = checkpoint.progress.step, checkpoint.epochs
        batches.shuffle(epoch, skip)
        epochs = epoch + 1 if skip else config.epochs
        _fit_epochs(
            model,
            run,
            config,
            dataset,
            batches,
            checkpoint,
            average,
            epochs,
            first,
            tracked,
        )


def _fit_epochs(
    model: MultiTaskModel,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    batches: AnyBatches,
    checkpoint: Checkpoint,
    average: EpochAverage | None,
    epochs: int,
    first: FirstTraining | None,
    tracked: TrackedRun | None,
) -> None:
    """Goes on from a checkpoint until so many epochs are done."""
    announce("Training: the first step takes longer, as it is compiled")
    streamed = isinstance(batches, StreamedBatches)
    with Interruption() as interruption, FiniteLoss() as finite_loss:
        model.fit(
            feed(batches, whole=not streamed, varying=streamed),
            epochs=epochs,
            initial_epoch=checkpoint.epochs,
            shuffle=False,
            verbose=0,
            callbacks=in_order(
                model,
                run,
                config,
                dataset,
                batches,
                checkpoint,
                interruption,
                finite_loss,
                average,
                first,
                tracked,
            ),
        )


def _average(
    model: MultiTaskModel, config: ResolvedConfig, first: FirstTraining | None
) -> EpochAverage | None:
    """The average of the tasks' weights, or of towers on batches of users."""
    weights, decay = model.trainable_variables, config.epoch_average
    if not config.averages_epochs or any(map(spans_processes, weights)):
        return None
    if isinstance(model, TwoTower) and model.part != "tasks":
        if model.part is None or not model.retrieval.shares_queries:
            return None
        return EpochAverage(weights, decay)
    # Weights of one order of the experts are no average with those of another;
    # and a step costs what it looks up of tables, an average all of them.
    by_rows = rows_of(model.optimizer).trains_by_rows
    if has_search(config) or any(map(by_rows, weights)):
        return None
    return EpochAverage(weights, decay, first is not None and first.averaged)
