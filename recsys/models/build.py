import numpy as np
import pandas as pd

from keras_moe.layers import MLPExperts
from keras_moe.layers import MMoE
from keras_moe.layers.initialization import derived_seed
from recsys.config import TrainConfig
from recsys.data import Dataset
from recsys.models.gates import create_gate
from recsys.models.gates import gate_class
from recsys.models.ranker import Ranker
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
    gates = {
        task: create_gate(
            config.gate,
            config.num_experts,
            config.k,
            num_buckets,
            derived_seed(config.seed, index),
            config.gate_options,
        )
        for index, task in enumerate(dataset.schema.tasks)
    }
    experts = MLPExperts(
        config.num_experts,
        config.expert_units,
        dropout=config.expert_dropout,
        # Without a seed, PyTorch drops out by a state that is not the model's.
        seed=derived_seed(config.seed, len(gates)),
    )
    return Ranker(
        vocabularies,
        {
            name: _moments(train[name])
            for name, kind in features.items()
            if kind == "number"
        },
        dataset.schema.tasks,
        MMoE(gates, experts, config.execution),
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
