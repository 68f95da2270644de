"""Layers inside of others that several of them share, in configurations.

Keras tells a layer that it has met before by its number, `shared_object_id`,
where a `.keras` file is written and read. A configuration that goes another
way, through `from_config`, `keras.models.clone_model` or JSON, would make a
layer of its own each time. Within `restoring()`, a part that is restored once
is taken again where its number comes once more.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras

from keras_moe.types import Config

# Keras's own name for the number, which it heeds as well.
NUMBER = "shared_object_id"

_restored: ContextVar[dict[int, object] | None] = ContextVar(
    "restored", default=None
)


def serialized(part: keras.layers.Layer, is_shared: bool) -> Config:
    """A part's configuration, with its number where it is shared."""
    config: Config = keras.saving.serialize_keras_object(part)
    if is_shared:
        config[NUMBER] = id(part)
    return config


def all_serialized(parts: Sequence[keras.layers.Layer]) -> list[Config]:
    """The configurations of parts, of which one may stand several times."""
    numbers = [id(part) for part in parts]
    return [serialized(part, numbers.count(id(part)) > 1) for part in parts]


@contextmanager
def restoring() -> Iterator[None]:
    """Restores parts shared within only once; an inner use adds nothing."""
    if _restored.get() is not None:
        yield
        return
    token = _restored.set({})
    try:
        yield
    finally:
        _restored.reset(token)


def restored(config: object) -> Any:
    """Returns the objects behind a configuration, or a dict or list of them."""
    if isinstance(config, (list, tuple)):
        return [restored(part) for part in config]
    if isinstance(config, dict) and not {"class_name", "config"} <= set(config):
        return {name: restored(part) for name, part in config.items()}
    known = _restored.get()
    number = config.get(NUMBER) if isinstance(config, dict) else None
    if known is None or number is None:
        return keras.saving.deserialize_keras_object(config)
    if number not in known:
        known[number] = keras.saving.deserialize_keras_object(config)
    return known[number]
