import asyncio
import gc
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recsys.serving import server
from recsys.serving.model_store import ModelStore

# A server does not import Keras, whatever the backend.
pytestmark = pytest.mark.once("tensorflow")


class Model:
    """As one of TensorFlow, part of a cycle."""

    def __init__(self, _: Path) -> None:
        self.itself = self


@pytest.fixture
def frozen() -> Iterator[None]:
    """Nothing is frozen at first, and all again for the tests that follow.

    Each training collects garbage, which would take them a second longer.
    """
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.mark.slow
@pytest.mark.usefixtures("frozen")
def test_garbage_is_looked_for_among_new_objects_and_old_versions(
    tmp_path: Path,
) -> None:
    """Not among all others at a time when somebody asks."""
    store: ModelStore[Any] = ModelStore(tmp_path, Model)
    add(tmp_path / "1")

    async def watch() -> None:
        watching = asyncio.create_task(server._watch(store, 0.01))
        first = await served(store, 1)
        while not gc.get_freeze_count():
            await asyncio.sleep(0.01)
        add(tmp_path / "2")
        await served(store, 2)
        while first() is not None:
            await asyncio.sleep(0.01)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    async def in_time() -> None:
        async with asyncio.timeout(20):
            await watch()

    asyncio.run(in_time())


def add(folder: Path) -> None:
    """Adds a version at once."""
    unfinished = folder.with_name("unfinished")
    unfinished.mkdir()
    (unfinished / "saved_model.pb").touch()
    unfinished.rename(folder)


async def served(store: ModelStore[Any], version: int) -> Any:
    """A weak reference to the model of a version, once it is there."""
    while store.served is None or store.served.version != version:
        await asyncio.sleep(0.01)
    return weakref.ref(store.served.model)
