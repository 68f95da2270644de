from copy import deepcopy

import keras
import numpy as np
import pandas as pd
from keras import ops

from recsys.errors import DataError
from recsys.features.feature import FittedFeature
from recsys.features.feature import sharing_last
from recsys.features.id import FittedId
from recsys.features.id_values import as_ids
from recsys.features.list_room import with_room_of
from recsys.models.grown_weights import copy_grown_weights
from recsys.models.two_tower import TwoTower
from recsys.sequences.sequence_retrieval import SequenceRetrieval


def with_more_items(
    ranker: TwoTower, items: pd.DataFrame, place: object
) -> TwoTower:
    """Returns a model that can recommend further items.

    An item that the model does not know gets a number and a place in the
    catalogue, with its features. Of itself it is an unknown one: the rows of
    its id begin as those of unknown ids, and in scores with the popularity it
    is as popular as the mean item. It is told from others by its features.
    Known items stay what they are, and predictions for them the same.

    Args:
        ranker: A trained model, which stays as it is.
        items: A row for each item, with its id and a column for each further
            feature of `ranker.retrieval`, parsed. Of an item with several
            rows the last one counts; known items are passed over.
        place: Where they come from, for error messages.

    Returns:
        The model; the vectors of its index are not up to date.

    Raises:
        DataError: An item has a list that is longer than any in the training.
        ValueError: The gates route by the item.
    """
    item = ranker.retrieval.item
    if ranker.hash_feature == item:
        raise ValueError(
            "`run` must not have a gate that routes by the item, such as "
            "hash, which has drawn the experts of each. Received: a run whose "
            f"gates route by {item!r}"
        )
    known = ranker.fitted[item]
    assert isinstance(known, FittedId), "what is recommended is an id"
    new = _new_items(known, items, item)
    grown = known.with_ids(new[item])
    model = _grown_model(ranker, grown)
    copy_grown_weights(ranker, model, place)
    numbers = grown.encode(new[item])
    for name, variable in model.retrieval.features.items():
        values = ops.convert_to_numpy(variable).copy()
        encoded = _encoded(model.fitted[name], new[name], values, name, place)
        values[numbers] = encoded
        variable.assign(values)
    shares = ops.convert_to_numpy(model.retrieval.sampling).copy()
    known_shares = shares[1:][shares[1:] > 0]
    shares[numbers] = known_shares.mean() if len(known_shares) else 0.0
    model.retrieval.sampling.assign(shares)
    if isinstance(model.retrieval, SequenceRetrieval):
        model.retrieval.item_tower.fill(model.retrieval.features)
    return model


def _new_items(known: FittedId, items: pd.DataFrame, item: str) -> pd.DataFrame:
    """The rows of items that are not known, each once, in their order."""
    ids = as_ids(items[item], item)
    unknown = ids.notna().to_numpy() & (known.encode(ids) == 0)
    new = items[unknown]
    return new.drop_duplicates(item, keep="last").reset_index(drop=True)


def _grown_model(ranker: TwoTower, grown: FittedId) -> TwoTower:
    """An untrained model of the same kind with more items."""
    config = ranker.get_config()
    item = ranker.retrieval.item
    num_items = grown.vocabulary.size
    features: dict[str, FittedFeature] = {}
    for name in sharing_last(ranker.features):
        fitted = ranker.fitted[name]
        if name == item:
            fitted = grown
        elif fitted.of is not None:  # It may share the items.
            fitted = fitted.kind.restore(fitted.get_state(), features)
        features[name] = fitted
    of_retrieval = deepcopy(config["retrieval"]["config"])
    of_retrieval["num_items"] = num_items
    vectors = of_retrieval.get("vectors", {})
    if item in vectors:
        vectors[item]["config"]["input_dim"] = num_items + 1
    retrieval = type(ranker.retrieval).from_config(of_retrieval)
    restore = keras.saving.deserialize_keras_object
    return TwoTower(
        **{
            **config,
            "features": {name: features[name] for name in ranker.fitted},
            "mixture": restore(config["mixture"]),
            "interaction": restore(config["interaction"]),
            "scenario_model": restore(config["scenario_model"]),
            "retrieval": retrieval,
        }
    )


def _encoded(
    feature: FittedFeature,
    column: pd.Series,
    values: np.ndarray,
    name: str,
    place: object,
) -> np.ndarray:
    """A feature of the new items, with the room of the catalogue's lists."""
    encoded = feature.encode(column)
    if encoded.ndim > 1 and encoded.shape[1] > values.shape[1]:
        raise DataError.at(
            place,
            f"lists of at most {values.shape[1]} values, as the items of the "
            "training have",
            f"one of {encoded.shape[1]}",
            column=name,
        )
    return with_room_of(encoded, values)
