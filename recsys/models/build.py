import numpy as np
import pandas as pd

from recsys.config import TrainConfig
from recsys.data import Dataset
from recsys.models.gates import gate_class
from recsys.models.ranker import Ranker
from recsys.models.structures import Structures
from recsys.models.vocabulary import Vocabulary


def build_ranker(config: TrainConfig, dataset: Dataset) -> Ranker:
    """Builds the untrained ranker of a configuration.

    Vocabularies, means and variances are those of the training split.

    Args:
        config: A configuration whose open fields are settled.
        dataset: The data set to be trained on.
    """
    train = dataset.split("train")
    features = dataset.schema.features
    vocabularies = {
        name: Vocabulary.of(train[name])
        for name, kind in features.items()
        if kind == "id"
    }
    hash_feature = None
    num_buckets = 0
    if gate_class(config.gate).feature_rank == 0:
        hash_feature = config.hash_feature
        if hash_feature is None:
            raise ValueError(
                f"`gate` must not be {config.gate!r}, which routes by an id, "
                "where the data have no id feature. "
                f"Received: features {features}"
            )
        num_buckets = vocabularies[hash_feature].size + 1
    numbers = {
        name: _moments(train[name])
        for name, kind in features.items()
        if kind == "number"
    }
    width = len(vocabularies) * config.embedding_dim + len(numbers)
    tasks = dataset.schema.tasks
    return Ranker(
        vocabularies,
        numbers,
        tasks,
        Structures(config, list(tasks), width, num_buckets).create(),
        config.embedding_dim,
        config.head_units,
        hash_feature,
        config.unknown_rate,
    )


def _moments(column: "pd.Series[float]") -> tuple[float, float]:
    """Mean and variance of what is there; of a standard normal if nothing."""
    numbers = column.dropna().to_numpy(np.float64)
    if not len(numbers):
        return 0.0, 1.0
    return float(numbers.mean()), float(numbers.var())
