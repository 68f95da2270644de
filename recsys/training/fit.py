import keras

from keras_moe.callbacks import PermutationSearch
from keras_moe.callbacks import RoutingMonitor
from recsys.config.train_config import TrainConfig
from recsys.data.load import AnyDataset
from recsys.data.streaming.ground_truth import ground_truth
from recsys.distribution.process_group import current_group
from recsys.measuring.epoch_choice import VALIDATION_RETRIEVAL
from recsys.measuring.epoch_choice import EpochChoice
from recsys.measuring.outcome import has_routing
from recsys.measuring.sample import Sample
from recsys.models.feeding import feed
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.scorer import Scorer
from recsys.runs.run import Run
from recsys.terminal.progress import announce
from recsys.training.batches import StreamedBatches
from recsys.training.batches import TrainingBatches
from recsys.training.batches import create_batches
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.finite_loss import FiniteLoss
from recsys.training.callbacks.interruption import Interruption
from recsys.training.callbacks.progress_line import ProgressLine
from recsys.training.callbacks.retrieval_index import RetrievalIndex
from recsys.training.callbacks.retrieval_validation import RetrievalValidation
from recsys.training.callbacks.retrieval_validation import check_counting_rows
from recsys.training.callbacks.same_state import SameState
from recsys.training.callbacks.steps_until_binary import StepsUntilBinary
from recsys.training.callbacks.stopwatch import Stopwatch
from recsys.training.callbacks.task_weight_history import TaskWeightHistory
from recsys.training.callbacks.validation import Validation
from recsys.training.callbacks.weight_history import WeightHistory
from recsys.training.compile_model import compile_model
from recsys.training.data_parallel import process_index
from recsys.training.warm_start import WarmStart


def fit(
    model: MultiTaskModel,
    run: Run,
    config: TrainConfig,
    dataset: AnyDataset,
    start: WarmStart | None,
) -> None:
    """Trains until the last epoch, or until validation stops improving.

    Args:
        model: The model, which is not compiled.
        run: The folder of its run; where that has a checkpoint, training goes
            on from there.
        config: The configuration, resolved.
        dataset: The data set to train on.
        start: What the run goes on from; `None` for one that begins anew.

    Raises:
        KeyboardInterrupt: After Ctrl-C.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    choice = EpochChoice.of(config, model.tasks)
    by_retrieval = choice.column.startswith(VALIDATION_RETRIEVAL)
    if by_retrieval and isinstance(model, Ranker):
        check_counting_rows(model, dataset, config.retrieval_label)
    compile_model(model, config)
    if start is not None:
        start.restore_optimizer(model)
    writes = process_index(config) == 0
    checkpoint = Checkpoint(
        run,
        config.patience,
        config.checkpoint_steps,
        writes,
        choice,
    )
    checkpoint.restore(model)
    if checkpoint.is_done(config.epochs):
        return
    train, weight = dataset.split("train"), dataset.schema.weight
    batches = create_batches(train, model, config, weight)
    while not checkpoint.is_done(config.epochs):
        # To `fit`, all epochs have as many steps as the first one, and one
        # that is resumed in its middle has fewer than the others.
        skip, epoch = checkpoint.progress.step, checkpoint.epochs
        batches.shuffle(epoch, skip)
        epochs = epoch + 1 if skip else config.epochs
        _fit_epochs(model, run, config, dataset, batches, checkpoint, epochs)


def _fit_epochs(
    model: MultiTaskModel,
    run: Run,
    config: TrainConfig,
    dataset: AnyDataset,
    batches: TrainingBatches | StreamedBatches,
    checkpoint: Checkpoint,
    epochs: int,
) -> None:
    """Goes on from a checkpoint until so many epochs are done."""
    schema, validation = dataset.schema, dataset.split("validation")
    truth = ground_truth(validation, schema)
    search = []
    if has_search(config):
        search = [PermutationSearch(config.search_epochs)]
    routing: list[keras.callbacks.Callback] = []
    if has_routing(model):
        sample = Sample.of(model, dataset)
        # In one batch: a last one of another size would be compiled for, too.
        monitor = RoutingMonitor(sample.inputs, batch_size=len(sample))
        routing = [monitor, StepsUntilBinary(checkpoint.progress)]
        if checkpoint.writes:
            routing.insert(1, WeightHistory(run.weights, monitor))
    weighting: list[keras.callbacks.Callback] = []
    if model.weighting is not None:
        weighting = [TaskWeightHistory(model.weighting)]
    indexing: list[keras.callbacks.Callback] = []
    retrieving: list[keras.callbacks.Callback] = []
    if isinstance(model, Ranker) and model.retrieval is not None:
        indexing = [RetrievalIndex(model)]
        if config.tower is None:
            retrieving = [RetrievalValidation(model, dataset, config)]
    group = current_group()
    same = [] if group is None else [SameState(group)]
    reports: list[keras.callbacks.Callback] = []
    if checkpoint.writes:
        reports = [
            keras.callbacks.TensorBoard(run.tensorboard, write_graph=False),
            ProgressLine(list(model.tasks), k=config.metrics_k),
        ]
    announce("Training: the first step takes longer, as it is compiled")
    with Interruption() as interruption, FiniteLoss() as finite_loss:
        model.fit(
            feed(batches, whole=isinstance(batches, TrainingBatches)),
            epochs=epochs,
            initial_epoch=checkpoint.epochs,
            shuffle=False,
            verbose=0,
            # Each sees in the logs what those before it have added.
            callbacks=[
                interruption,
                Stopwatch(),
                keras.callbacks.LambdaCallback(
                    on_epoch_begin=lambda epoch, logs: batches.shuffle(
                        epoch, checkpoint.progress.step
                    )
                ),
                finite_loss,
                *same,
                *weighting,
                *search,
                *routing,
                *indexing,
                Validation(
                    Scorer(model),
                    validation,
                    truth,
                    config.task_weights,
                    schema.roles(truth, config.metrics_k),
                ),
                *retrieving,
                checkpoint,
                *reports,
            ],
        )


def has_search(config: TrainConfig) -> bool:
    """Whether permutations are searched for while a model is trained."""
    searched = config.gate_choice.searched
    return searched and config.architecture != "shared-bottom"
