from typing import Any

from recsys.config.train_config import TrainConfig
from recsys.data.streaming.kept_units import KeptUnits
from recsys.data.streaming.pool_reader import Arrays
from recsys.data.streaming.split_stream import SplitStream
from recsys.models.multi_task_model import MultiTaskModel
from recsys.retrieval.retrieval import ROW_WEIGHTS
from recsys.retrieval.row_weights import row_weights
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of
from recsys.training.batches import TrainingBatches
from recsys.training.data_parallel import process_share
from recsys.training.streamed_batches import POOL_ROWS
from recsys.training.streamed_batches import StreamedBatches
from recsys.training.training_arrays import training_arrays


def create_batches(
    split: Any, model: MultiTaskModel, config: TrainConfig, weight: str | None
) -> TrainingBatches | StreamedBatches:
    """Creates the batches that a model is trained on.

    Args:
        split: The training split.
        model: The model.
        config: The configuration; it has the size of a batch, the seed and
            from how many rows one is drawn.
        weight: Column with the weights of rows; `None` for none.

    Returns:
        Batches of rows in memory, or for a `SplitStream` of rows that are read
        as they are needed: of those that this process has a share in.
    """

    def arrays(rows: Any) -> Arrays:
        labels = labels_of(rows, model.tasks)
        weights, inputs = weights_of(rows, weight), model.encode(rows)
        if config.retrieval:
            inputs[ROW_WEIGHTS] = row_weights(
                labels, config.retrieval_label, weights, len(rows)
            )
        return training_arrays(inputs, labels, weights)

    if not isinstance(split, SplitStream):
        return TrainingBatches(
            arrays(split), config.batch_size, config.seed, config.shuffle_buffer
        )
    return StreamedBatches(
        split.sizes,
        KeptUnits(lambda unit: arrays(split.read(split.units[unit]))),
        config.batch_size,
        config.seed,
        config.shuffle_buffer or POOL_ROWS,
        process_share(config),
    )
