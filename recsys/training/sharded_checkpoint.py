"""Checkpoints that all processes write, each what its devices have: Orbax's."""

from collections.abc import Mapping
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import keras
import numpy as np

from recsys.errors import DataError
from recsys.errors.reading import reading
from recsys.tables.variable_values import shape_of
from recsys.tables.variable_values import spans_processes

_EXPECTED = "a checkpoint that Orbax has written"


def is_sharded(variables: Sequence[keras.Variable]) -> bool:
    """Returns whether no process could write all values of the variables.

    Raises:
        ModuleNotFoundError: So it is, and Orbax, which then writes them, is
            missing.
    """
    sharded = any(map(spans_processes, variables))
    if sharded:
        import_module("orbax.checkpoint")
    return sharded


def save_shards(folder: Path, values: Mapping[str, np.ndarray]) -> None:
    """Writes arrays, called by all processes that have a part of them.

    Args:
        folder: What to write; it appears when it is whole. One that is there
            is replaced.
        values: `jax.Array`s by name.
    """
    import orbax.checkpoint

    checkpointer = orbax.checkpoint.PyTreeCheckpointer()
    checkpointer.save(folder.absolute(), dict(values), force=True)


def restore_shards(
    folder: Path, variables: Mapping[str, keras.Variable]
) -> None:
    """Gives variables what `save_shards` has written, on any devices.

    Each process reads what its own devices are to have.

    Args:
        folder: The folder.
        variables: The variables, by the names that their values have.

    Raises:
        DataError: The folder is missing or broken, or has other arrays.
    """
    import orbax.checkpoint as ocp

    folder = folder.absolute()
    if not folder.is_dir():
        raise DataError.at(folder, "a folder", "none of that name")
    checkpointer = ocp.PyTreeCheckpointer()
    with reading(folder, _EXPECTED, DataError):
        held = checkpointer.metadata(folder).item_metadata.tree
        for name, variable in variables.items():
            _check_shape(folder, held[name].shape, variable)
        values = checkpointer.restore(
            folder,
            restore_args={
                name: ocp.ArrayRestoreArgs(
                    sharding=variable.value.sharding,
                    dtype=variable.value.dtype,
                    global_shape=tuple(variable.shape),
                    # Padding depends on the number of devices.
                    strict=False,
                )
                for name, variable in variables.items()
            },
        )
    for name, variable in variables.items():
        variable.assign(values[name])


def _check_shape(
    folder: Path, held: Sequence[int], variable: keras.Variable
) -> None:
    """Checks that an array has the rows of a variable, or padding beside."""
    wanted, held = shape_of(variable), tuple(held)
    alike = len(held) == len(wanted) and held[1:] == wanted[1:]
    if not alike or held[:1] < wanted[:1]:
        raise DataError.at(
            folder, f"numbers {wanted} for {variable.path}", str(held)
        )
