"""Which rows of a model belong to ids, and where they come from."""

from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
import numpy.typing as npt
import pandas as pd

from keras_moe.layers import HashGate
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.scenarios.partitioned_normalization import (
    PartitionedNormalization,
)
from recsys.models.scenarios.star_dense import StarDense
from recsys.models.two_tower import TwoTower
from recsys.private_names import each_layer
from recsys.private_names import table_of
from recsys.sequences.sequence_retrieval import SequenceRetrieval

Origins = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class IdRows:
    """A weight of a model with a row for each id of a vocabulary.

    Attributes:
        weight: The weight.
        feature: The feature with the vocabulary.
        as_unknown: Whether rows of new ids begin as that of unknown ids, or
            else as they are drawn.
        has_unknown: Whether row 0 is that of unknown ids, or else that of the
            first id, and rows of new ids are as they are drawn.
    """

    weight: keras.Variable
    feature: str
    as_unknown: bool = True
    has_unknown: bool = True

    def origins(self, of_feature: Origins) -> Origins:
        """Returns the former row of each row, -1 for those of new ids.

        Args:
            of_feature: What `row_origins` has for the feature.
        """
        if not self.has_unknown:
            return np.where(of_feature[1:] > 0, of_feature[1:] - 1, -1)
        return of_feature


def row_origins(
    source: MultiTaskModel, model: MultiTaskModel
) -> dict[str, Origins]:
    """Returns where the numbers of ids come from.

    Args:
        source: The model before.
        model: The model after, with the same features.

    Returns:
        For each feature with a vocabulary, the number in the source of each of
        its ids, after the 0 of unknown ones: an array `(ids + 1,)`, -1 for
        new ids.
    """
    if not isinstance(source, Ranker) or not isinstance(model, Ranker):
        return {}
    origins = {}
    for name, vocabulary in model.vocabularies.items():
        before = source.vocabularies[name]
        numbers = before.encode(pd.Series(vocabulary.values)).astype(np.int64)
        origins[name] = np.append(0, np.where(numbers > 0, numbers, -1))
    return origins


def new_numbers(origins: Origins, num_before: int) -> npt.NDArray[np.int32]:
    """Returns what became of former numbers, 0 for ids that left.

    Args:
        origins: What `row_origins` has for a feature.
        num_before: How many numbers there were, the 0 included.

    Example:
    >>> new_numbers(np.array([0, 1, -1, 3]), 5).tolist()
    [0, 1, 0, 3, 0]
    """
    numbers = np.zeros(num_before, np.int32)
    known = np.flatnonzero(origins >= 0)
    numbers[origins[known]] = known
    return numbers


def rows_of_ids(model: MultiTaskModel) -> list[IdRows]:
    """Returns the weights that have a row for each id of a feature.

    Those of the catalogue of a retrieval are among them, those of its index
    are not.

    Args:
        model: A model.
    """
    if not isinstance(model, Ranker):
        return []
    rows = [
        IdRows(table_of(model.embeddings[name]), name)
        for name in model.vocabularies
    ]
    if model.statistics is not None:
        tables = model.statistics.tables.items()
        rows += [IdRows(table, name) for name, table in tables]
    rows += _of_hash_gates(model)
    rows += _of_scenarios(model)
    if isinstance(model, TwoTower):
        rows += _of_retrieval(model)
    return rows


def _of_hash_gates(model: Ranker) -> Iterator[IdRows]:
    if model.hash_feature in model.vocabularies:
        for layer in each_layer(model.mixture):
            if isinstance(layer, HashGate):
                yield IdRows(layer.table, model.hash_feature, as_unknown=False)


def _of_scenarios(model: Ranker) -> Iterator[IdRows]:
    if model.scenario_model is None:
        return
    feature = model.scenario_model.feature
    for part in (model.scenario_model, *model.heads.values()):
        for layer in each_layer(part):
            weights: list[keras.Variable] = []
            if isinstance(layer, StarDense):
                weights = [layer.kernels, layer.biases]
            elif isinstance(layer, PartitionedNormalization):
                weights = [layer.gammas, layer.betas]
                yield IdRows(layer.means, feature)
                yield IdRows(layer.variances, feature)
                yield IdRows(layer.num_updates, feature, as_unknown=False)
            for weight in weights:
                yield IdRows(weight, feature, has_unknown=False)


def _of_retrieval(model: TwoTower) -> Iterator[IdRows]:
    retrieval = model.retrieval
    for name, layer in retrieval.id_vectors.items():
        yield IdRows(table_of(layer), name)
    catalogue = [retrieval.sampling, *retrieval.features.values()]
    if isinstance(retrieval, SequenceRetrieval):
        tower = retrieval.item_tower
        catalogue += tower.known.values()
        tables = {retrieval.item: tower.own, **tower.tables}
        users = retrieval.query_tower.users
        if users is not None:
            tables |= users.tables
        for name, table in tables.items():
            owner = model.fitted[name].of or name
            if owner in model.vocabularies:
                yield IdRows(table, owner)
    for weight in catalogue:
        yield IdRows(weight, retrieval.item, as_unknown=False)
