import shutil
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from keras import ops

from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Dataset
from recsys.data import ImageDataset
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.data.streaming.frames import column_parts
from recsys.data.streaming.split_stream import SplitStream
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.data.times import parse_times
from recsys.errors import DataError
from recsys.errors import NonFiniteLossError
from recsys.files.atomic import replacing
from recsys.measuring.epoch_choice import EpochChoice
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.models.model_file import load_weights
from recsys.models.two_tower import TwoTower
from recsys.retrieval.counting_rows import ALL_ROWS
from recsys.retrieval.user_features import encode_looked_up
from recsys.runs.run import Run
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.sequences.spectral_vectors import spectral_vectors
from recsys.sequences.user_sequences import UserSequences
from recsys.terminal.progress import announce
from recsys.training.callbacks.checkpoint import Checkpoint
from recsys.training.callbacks.retrieval_index import update_index
from recsys.training.callbacks.retrieval_validation import check_counting_rows
from recsys.training.tower_training import WindowBatches
from recsys.training.tower_training import create_tower_training

_FIRST_LENGTH = 0.02  # Of item vectors, by the square root of their width.
# Most places of sequences that are read to validate an epoch. That of 1,024
# rows is chosen by chance: on Amazon Beauty their ndcg@10 has a standard error
# of 0.007, and epochs differ by 0.002.
_VALIDATED_PLACES = 1 << 18
_VALIDATED_ROWS = 1024  # Where sequences are long, these at least.


def fit_tower(
    ranker: TwoTower,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    goes_on: bool = False,
) -> None:
    """Trains the sequence tower of a ranker; its best epoch is kept.

    Each position of a user's sequence in the training split is to predict the
    next item, by the softmax over all items. The best epoch is that of the
    highest ndcg of rows of the validation split, at most 5,243 with sequences
    of 50 items, and 1,311 with 200. The run gets a table of the epochs,
    `tower_history.csv`. An interrupted training goes on from its checkpoint,
    which is in that of the run.

    Args:
        ranker: The ranker; its retrieval has a tower.
        run: The folder of its run.
        config: The configuration, resolved.
        dataset: The data set to train on.
        goes_on: Whether the tower has the weights of another run. Defaults to
            `False`.

    Raises:
        DataError: No user has two items in the training split, or no row of
            the validation split counts.
        KeyboardInterrupt: After Ctrl-C; the best epoch is in the ranker.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    k = config.metrics_k
    stage = Run(run.towers)
    checkpoint = Checkpoint(
        stage,
        config.tower_patience,
        choice=EpochChoice(f"val_ndcg@{k}", higher=True),
        keep=lambda: stage.save_model(ranker),
    )
    check_counting_rows(ranker, dataset, config.retrieval_label)
    measure = _validation(ranker, dataset, config)

    def validate() -> dict[str, float]:
        update_index(ranker)
        return _row(measure())

    try:
        for row in _epochs(
            ranker,
            checkpoint,
            config,
            dataset,
            config.tower_epochs,
            goes_on,
            validate,
        ):
            _announce(row)
            _publish(stage.history, run)
    finally:
        if stage.model.is_file():
            load_weights(ranker, stage.model)
        if stage.history.is_file():  # Also where no epoch was left to train.
            _publish(stage.history, run)
        update_index(ranker)
    ranker.retrieval.trainable = False  # While the tasks are trained.


def refit_tower(
    ranker: TwoTower,
    run: Run,
    config: ResolvedConfig,
    dataset: AnyDataset,
    epochs: int,
    goes_on: bool = False,
) -> None:
    """Trains the sequence tower of a ranker without validating it.

    An interrupted training goes on from its checkpoint, which is in that of
    the run.

    Args:
        ranker: The ranker; its retrieval has a tower.
        run: The folder of its run.
        config: The configuration, resolved, by whose epochs the learning rate
            falls.
        dataset: The data set to train on.
        epochs: How many epochs to train.
        goes_on: As that of `fit_tower`.

    Raises:
        DataError: No user has two items in the training split.
        NonFiniteLossError: The loss became NaN or infinite.
    """
    stage = Run(run.towers)
    last = EpochChoice("epoch", higher=True)
    checkpoint = Checkpoint(stage, epochs, choice=last, keep=lambda: None)
    for row in _epochs(ranker, checkpoint, config, dataset, epochs, goes_on):
        _announce(row)
    update_index(ranker)
    ranker.retrieval.trainable = False


def tower_costs(run: Run, config: ResolvedConfig) -> list[float] | None:
    """Returns what was to be low in each epoch of a run's towers.

    Args:
        run: The run.
        config: Its configuration.

    Returns:
        The ndcg of each epoch times -1, the best one last; `None` for towers
        that were not trained by themselves.
    """
    if not run.tower_history.is_file():
        return None
    column = f"val_ndcg@{config.metrics_k}"
    figures = pd.read_csv(run.tower_history)[column].fillna(-1)
    return [-figure for figure in figures[: int(figures.argmax()) + 1]]


def _epochs(
    ranker: TwoTower,
    checkpoint: Checkpoint,
    config: ResolvedConfig,
    dataset: AnyDataset,
    epochs: int,
    goes_on: bool,
    validate: Callable[[], dict[str, float]] = dict,
) -> Iterator[dict[str, float]]:
    """Trains a tower from a checkpoint on; yields the figures of each epoch."""
    retrieval = ranker.retrieval
    assert isinstance(retrieval, SequenceRetrieval), "one with a tower"
    assert not isinstance(dataset, ImageDataset), "of tables"
    sequences = training_sequences(ranker, dataset, config)
    length = retrieval.tower.length
    batches = WindowBatches(sequences, config, length, epoch=0)
    steps = len(batches) * config.tower_epochs
    training = create_tower_training(retrieval, config, steps)
    checkpoint.run.folder.mkdir(parents=True, exist_ok=True)
    checkpoint.restore(training)
    if config.tower_spectral and not goes_on and not checkpoint.epochs:
        _begin_spectral(retrieval, sequences)
    while not checkpoint.is_done(epochs):
        epoch = checkpoint.epochs
        if epoch:
            batches = WindowBatches(sequences, config, length, epoch)
        loss = training.fit_epoch(batches, config.seed, epoch)
        if not np.isfinite(loss):
            raise NonFiniteLossError(
                "The loss of the tower must stay finite; a lower "
                "tower_learning_rate may help. Received: a loss of "
                f"{loss}"
            )
        checkpoint.on_epoch_end(epoch, {"loss": loss, **validate()})
        yield checkpoint.progress.history[-1]


def training_sequences(
    ranker: TwoTower,
    dataset: Dataset | StreamedDataset,
    config: ResolvedConfig,
) -> UserSequences:
    """Returns what each user has had in the training split, oldest first.

    Beside it stand the features of users that the tower sees.

    Rows without the label that the retrieval looks at are left out; the order
    is that of the time, where the data name one, or else that of the rows.

    Raises:
        DataError: The data name no user, or no user has two items.
    """
    schema, train = dataset.schema, dataset.split("train")
    assert schema.item_id is not None, "checked before"
    if schema.user_id is None:
        raise DataError.at(
            schema.place,
            "an id feature that is the 'user' in dataset.json, or is called "
            "user, to train a sequence tower",
            f"the features {[*schema.features]}",
        )
    counting = [*_counting(train, schema, config.retrieval_label)]

    def chosen(name: str) -> Iterator[pd.Series]:
        for part, rows in zip(column_parts(train, name), counting, strict=True):
            yield part[rows]

    encode = ranker.fitted[schema.item_id].encode
    times = None
    if schema.time is not None:
        times = (
            parse_times(part, "the training split").to_numpy()
            for part in chosen(schema.time)
        )
    sequences = UserSequences.of(
        chosen(schema.user_id),
        map(encode, chosen(schema.item_id)),
        times,
        {
            name: map(
                partial(encode_looked_up, ranker.fitted[name]), chosen(name)
            )
            for name in ranker.retrieval.user_features
        },
    )
    if not (np.diff(sequences.starts) > 1).any():
        raise DataError.at(
            f"{schema.place}, train split",
            "a user with at least two items",
            "none",
        )
    return sequences


def _counting(
    train: SplitStream | pd.DataFrame, schema: Schema, label: str | None
) -> Iterator[np.ndarray]:
    """The rows of each part that count, boolean arrays."""
    assert schema.item_id is not None, "checked before"
    if label in (None, ALL_ROWS):
        for part in column_parts(train, schema.item_id):
            yield np.ones(len(part), bool)
        return
    for part in column_parts(train, str(label)):
        yield part.to_numpy() == 1


def _begin_spectral(
    retrieval: SequenceRetrieval, sequences: UserSequences
) -> None:
    """Gives item vectors their first values; an unknown one keeps its own."""
    announce("Decomposing the matrix of users and items")
    vectors = spectral_vectors(sequences, retrieval.num_items, retrieval.dim)
    if retrieval.temperature is None:
        vectors = vectors * (_FIRST_LENGTH * retrieval.dim**0.5)
    table = retrieval.item_tower.own
    values = ops.convert_to_numpy(table).copy()
    known = np.abs(vectors).sum(axis=1) > 0
    values[1:][known] = vectors[known]
    table.assign(values)


def _validation(
    ranker: TwoTower, dataset: AnyDataset, config: ResolvedConfig
) -> RetrievalMeasure:
    """Measures some rows of the validation split, always the same ones."""
    retrieval = ranker.retrieval
    assert isinstance(retrieval, SequenceRetrieval), "one with a tower"
    rows = -(-_VALIDATED_PLACES // retrieval.tower.length)
    return RetrievalMeasure(
        ranker,
        dataset,
        "validation",
        config,
        most_rows=max(_VALIDATED_ROWS, rows),
        popular=False,
    )


def _publish(history: Path, run: Run) -> None:
    """Gives a run the table of its tower's epochs."""
    with replacing(run.tower_history) as unfinished:
        shutil.copyfile(history, unfinished)


def _row(measured: Mapping[str, float]) -> dict[str, float]:
    """The table's entries for an epoch's metrics."""
    return {
        f"val_{name}": value
        for name, value in measured.items()
        if "@" in name and value is not None
    }


def _announce(row: Mapping[str, float]) -> None:
    """Says how an epoch has ended."""
    figures = ", ".join(
        f"{name} {value:.4f}" for name, value in row.items() if name != "epoch"
    )
    announce(f"Tower: {figures}")
