import keras
import numpy as np
from keras import ops

from recsys.errors import FileError
from recsys.models.id_rows import Origins
from recsys.models.id_rows import new_numbers
from recsys.models.id_rows import row_origins
from recsys.models.id_rows import rows_of_ids
from recsys.models.multi_task_model import MultiTaskModel
from recsys.models.two_tower import TwoTower
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import shape_of
from recsys.tables.variable_values import variable_values


def copy_grown_weights(
    source: MultiTaskModel, model: MultiTaskModel, place: object
) -> None:
    """Gives a model the weights of one whose tables have rows of other ids.

    Every weight becomes that of the source, bit for bit. A row of a table of
    ids is that of the same id. Those of new ids, whether an id that left had
    the row or none, begin as row 0, that of unknown ids: it has learned what
    to predict for an id about which nothing is known, so that the model
    predicts for a new id what it has predicted for it so far, and goes on from
    there. (Freshly drawn, as in TorchRec or HugeCTR, where there is no such
    row, it would add noise to what is predicted until it is trained.) Rows of
    hash gates and of scenarios' own weights are as they are drawn. The index
    of a retrieval stays that of the model.

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
    origins = row_origins(source, model)
    by_id = {id(rows.weight): rows for rows in rows_of_ids(model)}
    kept = _of_index(model)
    for held, weight in zip(theirs, mine, strict=True):
        if id(weight) in kept:
            continue
        rows = by_id.get(id(weight))
        held_shape, shape = tuple(held.shape), shape_of(weight)
        if rows is None and held_shape == shape:
            assign(weight, held)
        elif rows is not None and held_shape[1:] == shape[1:]:
            sources = rows.origins(origins[rows.feature])
            if rows.as_unknown and rows.has_unknown:
                sources = np.maximum(sources, 0)
            assign(weight, moved_rows(held.numpy(), weight, sources))
        else:
            raise FileError.at(
                place, f"a weight {shape} for {weight.path}", f"{held_shape}"
            )
    _renumber_catalogue(source, model, origins)


def moved_rows(
    held: np.ndarray, weight: keras.Variable, origins: Origins
) -> np.ndarray:
    """Returns the value of a weight with the rows of another one.

    Args:
        held: The value of the other one.
        weight: The weight, as it is drawn.
        origins: Which of those rows each one has; -1 for what it has itself.
    """
    if (origins >= 0).all():
        return held[origins]
    values = np.array(variable_values(weight))
    values[origins >= 0] = held[origins[origins >= 0]]
    return values


def _of_index(model: MultiTaskModel) -> set[int]:
    """The weights of the index of a retrieval."""
    if not isinstance(model, TwoTower):
        return set()
    return {id(weight) for weight in model.retrieval.index.weights}


def _renumber_catalogue(
    source: MultiTaskModel,
    model: MultiTaskModel,
    origins: dict[str, Origins],
) -> None:
    """Gives ids of a retrieval's catalogue the numbers that they have now."""
    if not isinstance(source, TwoTower) or not isinstance(model, TwoTower):
        return
    for name, variable in model.retrieval.features.items():
        owner = model.fitted[name].of or name
        if owner in origins:
            before = source.vocabularies[owner].size + 1
            numbers = new_numbers(origins[owner], before)
            held = ops.convert_to_numpy(source.retrieval.features[name])
            held = model.fitted[name].renumbered(held, numbers)
            # Those of new items have the new numbers already.
            rows = origins[model.retrieval.item]
            variable.assign(moved_rows(held, variable, rows))
