from collections.abc import Collection
from collections.abc import Mapping
from dataclasses import replace

import keras

from recsys.config.resolved_config import ResolvedConfig
from recsys.data import Dataset
from recsys.data.streaming.streamed_dataset import StreamedDataset
from recsys.features.feature import FittedFeature
from recsys.features.id import FittedId
from recsys.models.id_embedding import IdEmbedding
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.losses import RetrievalLoss
from recsys.retrieval.losses import create_loss
from recsys.retrieval.losses.full_softmax import MOST_ITEMS
from recsys.retrieval.losses.full_softmax import FullSoftmax
from recsys.retrieval.losses.softmax import Softmax
from recsys.retrieval.query_role import EncodedColumns
from recsys.retrieval.retrieval import Retrieval
from recsys.retrieval.user_queries import MOST_ROWS
from recsys.retrieval.user_queries import user_queries

# Of free vectors, by the square root of their width: the largest at first.
_FIRST_NUMBER = 0.1
# Widths of vectors, the second where an id has so many rows on average.
_WIDTHS = 64, 128
_MANY_ROWS = 50


def ids_of(
    features: Mapping[str, FittedFeature], names: Collection[str | None]
) -> dict[str, FittedId]:
    """Returns those of the named features that are ids."""
    return {
        name: feature
        for name, feature in features.items()
        if name in names and isinstance(feature, FittedId)
    }


def with_open_fields(
    config: ResolvedConfig,
    dataset: Dataset | StreamedDataset,
    features: Mapping[str, FittedFeature],
    catalogue: Catalogue,
    free_ids: Mapping[str, FittedId],
    source: Ranker | None,
) -> ResolvedConfig:
    """Decides what a configuration leaves to the data of two towers.

    Args:
        config: The configuration, resolved otherwise.
        dataset: The data set to be trained on.
        features: The features, fitted.
        catalogue: The items.
        free_ids: The ids that have vectors, by name.
        source: The model that the training goes on from, if any.
    """
    if config.retrieval_loss is None:
        loss = _loss_name(dataset, features, catalogue, free_ids)
        config = replace(config, retrieval_loss=loss)
    if config.retrieval_dim is None:
        num_rows = len(dataset.split("train"))
        dim = _vector_width(free_ids, num_rows, source)
        config = replace(config, retrieval_dim=dim)
    return config


def create_retrieval(
    config: ResolvedConfig,
    catalogue: Catalogue,
    free_ids: Mapping[str, FittedId],
    source: Ranker | None,
) -> Retrieval:
    """Creates two towers, with free vectors of some ids.

    Args:
        config: The configuration, without open fields.
        catalogue: The items, with which the towers are to be filled.
        free_ids: The ids that have vectors, by name.
        source: The model that the training goes on from, if any.

    Raises:
        ValueError: The loss is not for so many items.
    """
    assert config.retrieval_dim is not None, "decided before"
    # The towers begin with what is popular, and not with noise.
    first = _FIRST_NUMBER / config.retrieval_dim**0.5
    vectors = {
        name: IdEmbedding(
            feature.num_rows,
            config.retrieval_dim,
            config.unknown_rate,
            embeddings_initializer=keras.initializers.RandomUniform(
                -first, first
            ),
        )
        for name, feature in free_ids.items()
    }
    shapes = catalogue.shapes
    if isinstance(source, TwoTower):
        shapes = source.retrieval.feature_shapes
    return Retrieval(
        catalogue.item,
        list(shapes),
        catalogue.num_items,
        shapes,
        dim=config.retrieval_dim,
        units=config.head_units,
        weight=config.retrieval_weight,
        label=config.retrieval_label,
        correction=config.retrieval_correction,
        vectors=vectors,
        penalty=config.retrieval_penalty if vectors else 0.0,
        loss=_loss(config, catalogue),
        alone=not config.trains_tasks,
    )


def _vector_width(
    free_ids: Mapping[str, FittedId], num_rows: int, source: Ranker | None
) -> int:
    """Width of the vectors of retrieval where it is open.

    `benchmarks/README.md`, "Batches of users", compares the two.
    """
    if isinstance(source, TwoTower):
        return source.retrieval.dim
    known = sum(feature.num_rows - 1 for feature in free_ids.values())
    return _WIDTHS[0 < _MANY_ROWS * known <= num_rows]


def _loss_name(
    dataset: Dataset | StreamedDataset,
    features: Mapping[str, FittedFeature],
    catalogue: Catalogue,
    free_ids: Mapping[str, FittedId],
) -> str:
    """The loss where it is open: the one of all items, if users share it."""
    user = dataset.schema.user_id
    train = dataset.split("train")
    if catalogue.num_items > MOST_ITEMS or len(train) > MOST_ROWS:
        return Softmax.type
    if user is None or user not in free_ids:
        return Softmax.type
    of_items = {catalogue.item, *catalogue.values, user}
    of_users = [name for name in features if name not in of_items]
    columns = EncodedColumns(train, features)
    shared = user_queries(columns, user, of_users) is not None
    return FullSoftmax.type if shared else Softmax.type


def _loss(config: ResolvedConfig, catalogue: Catalogue) -> RetrievalLoss:
    assert config.retrieval_loss is not None, "decided before"
    loss = create_loss(config.retrieval_loss, config.retrieval_loss_options)
    if isinstance(loss, FullSoftmax) and catalogue.num_items > MOST_ITEMS:
        raise ValueError(
            f"`retrieval_loss` must not be {loss.type} for more than "
            f"{MOST_ITEMS:,} items; sampled-softmax and mixed-softmax draw "
            f"some of them. Received: {catalogue.num_items:,} items"
        )
    return loss
