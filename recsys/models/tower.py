"""The retrieval of a configuration with a sequence tower."""

from collections.abc import Container
from collections.abc import Mapping

import keras
import numpy as np

from keras_moe.layers import MLPExperts
from keras_moe.layers import MoE
from recsys.columns.kind import declarations
from recsys.config.resolved_config import ResolvedConfig
from recsys.data import ImageDataset
from recsys.data.load import AnyDataset
from recsys.data.schema import Schema
from recsys.errors import DataError
from recsys.features import Sequence
from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.id_list import FittedIdList
from recsys.models.gates import create_gate
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.retrieval.catalogue import Catalogue
from recsys.retrieval.user_features import features_of_users
from recsys.sequences.blocks import BLOCKS
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.sequences.sequence_tower import SequenceTower

_HIDDEN = 4  # Hidden units of a feed-forward layer, by the tower's width.


def create_sequence_retrieval(
    config: ResolvedConfig,
    catalogue: Catalogue,
    features: Mapping[str, FittedFeature],
    dataset: AnyDataset,
    source: Ranker | None = None,
) -> SequenceRetrieval:
    """Creates the retrieval of a configuration with a tower.

    Ids and vectors of items are added to their own vectors, and ids, vectors
    and buckets of numbers of a user to those of the history; other features
    are for the ranker alone.

    Args:
        config: The configuration, resolved.
        catalogue: The items of the training split.
        features: The features, fitted.
        dataset: The data set to be trained on.
        source: The model that the training goes on from, if any, which says
            what features a user has.

    Raises:
        DataError: The data have no sequence of items.
    """
    schema = dataset.schema
    history = history_feature(schema)
    fitted = features[history]
    assert isinstance(fitted, FittedIdList), "a sequence"
    num_ids, widths = _ids_and_vectors(features, catalogue.values)
    num_user_ids, user_widths = _of_users(
        features, dataset, {*catalogue.values, history}, source
    )
    return SequenceRetrieval(
        catalogue.item,
        list(catalogue.shapes),
        catalogue.num_items,
        catalogue.shapes,
        history,
        create_tower(config, fitted.length),
        num_ids,
        widths,
        num_user_ids,
        user_widths,
        config.tower_width,
        config.tower_temperature,
        config.tower_id_dropout,
        config.retrieval_label,
        alone=not config.trains_tasks,
    )


def _ids_and_vectors(
    features: Mapping[str, FittedFeature], values: Mapping[str, np.ndarray]
) -> tuple[dict[str, int], dict[str, int]]:
    """How many ids features have, and how wide others are that are vectors."""
    num_ids, widths = {}, {}
    for name, array in values.items():
        if array.dtype.kind == "i" and array.ndim <= 2:
            num_ids[name] = _num_ids(features[name])
        elif array.dtype.kind == "f" and array.ndim == 2:
            widths[name] = array.shape[1]
    return num_ids, widths


def _num_ids(feature: FittedFeature) -> int:
    vocabulary, num_rows = feature.vocabulary, feature.num_rows
    if vocabulary is not None:
        num_rows = vocabulary.size + 1
    assert num_rows is not None, "integers are looked up"
    return num_rows


def _of_users(
    features: Mapping[str, FittedFeature],
    dataset: AnyDataset,
    of_items: Container[str],
    source: Ranker | None,
) -> tuple[dict[str, int], dict[str, int]]:
    """The same of the features of users, which are none of the items."""
    before = source.retrieval if isinstance(source, TwoTower) else None
    if isinstance(before, SequenceRetrieval):
        counts = {
            name: _num_ids(features[name]) for name in before.num_user_ids
        }
        return counts, before.user_widths
    assert not isinstance(dataset, ImageDataset), "a ranker fits tables alone"
    train = dataset.split("train")
    values = features_of_users(train, dataset.schema, features, of_items)
    return _ids_and_vectors(features, values)


def has_history(schema: Schema) -> bool:
    """Returns whether a feature has the items that a user has had before."""
    return any(_is_history(kind, schema) for kind in schema.features.values())


def history_feature(schema: Schema) -> str:
    """Returns the feature with the items that a user has had before.

    Raises:
        DataError: There is none.
    """
    for name, kind in schema.features.items():
        if _is_history(kind, schema):
            return name
    raise DataError.at(
        schema.place,
        "for a sequence tower, a feature of type sequence that is `of` the "
        f"item {schema.item_id!r}",
        f"the features {declarations(schema.features)}",
    )


def _is_history(kind: Feature, schema: Schema) -> bool:
    item = schema.item_id
    return item is not None and isinstance(kind, Sequence) and kind.of == item


def create_tower(config: ResolvedConfig, length: int) -> SequenceTower:
    """Creates the tower of a configuration.

    Args:
        config: The configuration.
        length: Most positions of a history.
    """
    assert config.sequence_tower is not None, "asked for with one alone"
    blocks = [
        BLOCKS[config.sequence_tower](
            lambda: _feed_forward(config),
            length,
            config.tower_heads,
            config.tower_dropout,
        )
        for _ in range(config.tower_blocks)
    ]
    return SequenceTower(blocks, length, config.tower_dropout)


def _feed_forward(config: ResolvedConfig) -> keras.layers.Layer:
    """Two dense layers, or experts of which a position takes a few."""
    width = config.tower_width
    if config.tower_gate is None:
        hidden = keras.layers.Dense(_HIDDEN * width, activation="gelu")
        return keras.Sequential([hidden, keras.layers.Dense(width)])
    seed = keras.random.randint((), 0, 2**31 - 1)
    gate = create_gate(
        config.tower_gate,
        config.tower_experts,
        config.tower_k,
        num_buckets=1,
        seed=int(seed),
        options={},
    )
    hidden_units = -(-_HIDDEN * width // config.tower_k)
    units: list[int] = [hidden_units, width]
    experts = MLPExperts(config.tower_experts, units, activation=["gelu", None])
    return MoE(gate, experts)
