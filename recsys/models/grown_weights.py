from typing import Any

import keras
import numpy as np

from recsys.errors import FileError
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.ranker import Ranker
from recsys.models.two_tower import TwoTower
from recsys.sequences.sequence_retrieval import SequenceRetrieval
from recsys.tables.marks import marks
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import shape_of
from recsys.tables.variable_values import variable_values


def copy_grown_weights(
    source: MultiTaskModel, model: MultiTaskModel, place: object
) -> None:
    """Gives a model the weights of one whose tables may have fewer rows.

    Every weight becomes that of the source, bit for bit. A row of a table of
    ids behind those of the source begins as row 0, that of unknown ids: it
    has learned what to predict for an id about which nothing is known, so that
    the model predicts for a new id what it has predicted for it so far, and
    goes on from there. (Freshly drawn, as in TorchRec or HugeCTR, where there
    is no such row, it would add noise to what is predicted until it is
    trained.) Rows of other tables, those of hash gates, stay as they are
    drawn.

    Args:
        source: A trained model.
        model: What `build_model` makes of its configuration and it.
        place: Where the source comes from, for the error message.

    Raises:
        FileError: The model has other weights.
    """
    # Not `variables`: random states are those of the model.
    theirs, mine = source.weights, model.weights
    if len(theirs) != len(mine):
        raise FileError.at(place, f"{len(mine)} weights", f"{len(theirs)}")
    by_id = [id(table) for table in _other_tables_of_ids(model)]
    for source_weight, weight in zip(theirs, mine, strict=True):
        held_shape, shape = tuple(source_weight.shape), shape_of(weight)
        if held_shape == shape:
            assign(weight, source_weight)
        elif held_shape[1:] == shape[1:] and held_shape[0] < shape[0]:
            is_table = marks(weight).is_table or id(weight) in by_id
            assign(weight, _grown(source_weight, weight, is_table))
        else:
            raise FileError.at(
                place, f"a weight {shape} for {weight.path}", f"{held_shape}"
            )


def _other_tables_of_ids(model: MultiTaskModel) -> list[keras.Variable]:
    """Target statistics, those of scenarios, and of a sequence tower."""
    tables: list[keras.Variable] = []
    if isinstance(model, Ranker) and model.scenario_model is not None:
        tables += model.scenario_model.tables_of_ids
    if isinstance(model, Ranker) and model.statistics is not None:
        tables += model.statistics.tables.values()
    if isinstance(model, TwoTower) and isinstance(
        model.retrieval, SequenceRetrieval
    ):
        tables += model.retrieval.item_tower.id_tables
    return tables


def _grown(held: Any, wanted: keras.Variable, is_table: bool) -> np.ndarray:
    """The value of a table that has more rows than the held one."""
    known, values = held.numpy(), np.array(variable_values(wanted))
    values[: len(known)] = known
    if is_table:
        values[len(known) :] = known[0]
    return values
