"""The file with what a model's optimizer has come to."""

import logging
import re
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

from recsys.errors import DataError
from recsys.files.atomic import replacing
from recsys.files.npz_file import npz_names
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz
from recsys.models.grown_weights import moved_rows
from recsys.models.id_rows import Origins
from recsys.tables.variable_values import assign
from recsys.tables.variable_values import shape_of
from recsys.tables.variable_values import variable_values

_log = logging.getLogger(__name__)


def save_optimizer(file: Path, model: keras.Model) -> None:
    """Writes the state of a model's optimizer.

    That is all of `model.optimizer.variables` but the learning rates, which
    the configuration has. A slot, such as a moment of Adam, is named after
    the place of its weight among the trainable ones, which is that of a model
    of the same configuration in another process, whatever Keras calls it.

    Args:
        file: The `.npz` file to write.
        model: A compiled model.
    """
    state = _state(model)
    with replacing(file) as unfinished:
        write_npz(
            unfinished,
            ((name, variable_values(state[name])) for name in state),
        )


def restore_optimizer(
    file: Path, model: keras.Model, origins: Mapping[str, Origins] = {}
) -> None:
    """Gives a model's optimizer the state that `save_optimizer` has written.

    The tables of the model may have other rows than those of the model that was
    saved, as `origins` says; without, slots of the rows behind its last one
    begin as in any training.
    A table that by now has `min_table_rows` goes on by lazy Adam with the
    moments that Adam has left. What the file does not have begins as in any
    training too, with a warning: such as the accumulators of such a table, if
    it is row-wise Adagrad's by now.

    Args:
        file: The `.npz` file, which may be missing.
        model: A compiled model.
        origins: By the place of a table among the trainable weights, written
            as `save_optimizer` does, which row of the model that was saved
            each of its rows was; -1 for those of new ids, whose slots begin as
            in any training. None by default.

    Raises:
        DataError: The file is broken.
    """
    held = set(npz_names(file)) if file.is_file() else set()
    state = _state(model)
    begun = [
        name
        for name, variable in state.items()
        if not _restore(
            variable,
            _read(file, name, held),
            origins.get(name.partition("/")[0]),
        )
    ]
    if begun:
        _log.warning(
            "%s: expected the state of the optimizer. Received: none of %s, "
            "which begins anew.",
            file,
            f"{len(begun)} of {len(state)} variables",
        )


def _read(file: Path, name: str, held: set[str]) -> np.ndarray | None:
    """Reads what a file that holds arrays of these names has of a variable."""
    if name in held:
        return _numbers(file, name)
    # The rows of lazy Adam's slot are those of Adam's two, side by side.
    slots = [re.sub("/moments$", x, name) for x in ("/momentum", "/velocity")]
    if not held.issuperset(slots):
        return None
    m, v = (_numbers(file, slot) for slot in slots)
    is_table = m.ndim == 2 and m.shape == v.shape
    return np.concatenate([m, v], axis=1) if is_table else None


def _numbers(file: Path, name: str) -> np.ndarray:
    array = read_npz(file, [name])[name]
    if array.dtype.kind not in "iuf":
        raise DataError.at(file, f"numbers in {name!r}", str(array.dtype))
    return array


def _restore(
    variable: keras.Variable,
    array: np.ndarray | None,
    origins: Origins | None,
) -> bool:
    """Gives a variable the rows of an array; returns whether they fit."""
    if array is None:
        return False
    shape = shape_of(variable)
    if origins is not None and shape and array.shape[1:] == shape[1:]:
        if len(origins) == shape[0] and origins.max() < len(array):
            assign(variable, moved_rows(array, variable, origins))
            return True
        return False
    if array.shape == shape:
        assign(variable, array)
        return True
    if not shape or array.shape[1:] != shape[1:] or len(array) > shape[0]:
        return False
    values = np.array(variable_values(variable))
    values[: len(array)] = array
    assign(variable, values)
    return True


def _state(model: keras.Model) -> dict[str, keras.Variable]:
    """The variables of a model's optimizer by name."""
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    named: dict[str, keras.Variable] = {}
    for variable in optimizer.variables:
        if variable.name == "learning_rate":
            continue
        name = first = _name(variable.name, model.trainable_variables)
        number = 1
        while name in named:
            number += 1
            name = f"{first}.{number}"
        named[name] = variable
    return named


def _name(name: str, weights: Iterable[keras.Variable]) -> str:
    """The name of a variable without what Keras counts up in a process."""
    prefixes = {
        f"{weight.path.replace('/', '_')}_": place
        for place, weight in enumerate(weights)
    }
    prefix = max(filter(name.startswith, prefixes), key=len, default=None)
    if prefix is None:
        return re.sub(r"_\d+(?=_|$)", "", name)
    return f"{prefixes[prefix]}/{name.removeprefix(prefix)}"
