import keras

from keras_moe.types import Logs
from recsys.config.resolved_config import ResolvedConfig
from recsys.data.load import AnyDataset
from recsys.errors import DataError
from recsys.measuring.epoch_choice import VALIDATION_RETRIEVAL
from recsys.measuring.measure_retrieval import RetrievalMeasure
from recsys.models.two_tower import TwoTower
from recsys.retrieval.counting_rows import row_weights
from recsys.tasks.chains import labels_of
from recsys.tasks.row_weight import weights_of

_MOST_ROWS = 20_000


class RetrievalValidation(keras.callbacks.Callback):
    """Adds how well the validation split's items are found to the logs.

    They are `val_retrieval_ndcg@<k>` and so on, as `RetrievalMeasure` has
    them, over the whole catalogue, without what users have seen where the
    metrics of the run are without it. Of a larger split they are of 20,000
    rows, the same ones in each epoch: the standard error is below 0.004 then.
    It comes after the callback that brings the index up to date.

    Args:
        ranker: The model that is trained, with retrieval.
        dataset: The data set.
        config: The configuration, resolved.
        most_rows: Most rows to look at. Defaults to 20,000.
    """

    def __init__(
        self,
        ranker: TwoTower,
        dataset: AnyDataset,
        config: ResolvedConfig,
        most_rows: int = _MOST_ROWS,
    ) -> None:
        super().__init__()
        self.measure = RetrievalMeasure(
            ranker,
            dataset,
            "validation",
            config,
            most_rows=most_rows,
            popular=False,
        )

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        assert logs is not None
        for name, value in self.measure().items():
            if "@" in name and value is not None:
                logs[f"{VALIDATION_RETRIEVAL}{name}"] = value


def check_counting_rows(
    ranker: TwoTower, dataset: AnyDataset, label: str | None
) -> None:
    """Checks that a retrieval metric of the validation split exists.

    Args:
        ranker: A model with retrieval.
        dataset: The data set.
        label: The task that says which rows count.

    Raises:
        DataError: No row of the validation split counts for retrieval.
    """
    schema = dataset.schema
    rows = dataset.split("validation")[schema.truth_columns]
    weights = weights_of(rows, schema.row_weights)
    labels = labels_of(rows, ranker.tasks)
    if not (row_weights(labels, label, weights, len(rows)) > 0).any():
        raise DataError.at(
            f"{schema.place}, validation split",
            "rows that count for retrieval, to choose the epoch by; "
            "`select='tasks'` does without",
            f"none, with retrieval_label={label!r}",
        )
