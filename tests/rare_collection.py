"""How often Python looks for garbage in tests, and in processes they start.

What is imported, traced and compiled is mostly objects that stay for a while:
looking for garbage among them as often as Python does takes a tenth of the time
of a test, and half of it where little is computed.
"""

import gc
import time
from typing import Any
from typing import ClassVar


def collect_rarely() -> None:
    gc.set_threshold(20_000, 20, 20)


def hide_what_stays() -> None:
    """Hides what is there now, which the collector need not visit again."""
    gc.collect()
    gc.freeze()
    LastCollection.seconds = 0.0


class LastCollection:
    """The last time that all objects were visited, but for hidden ones.

    Each training has that done, to let go of its model.
    """

    seconds: ClassVar[float] = 0.0
    _begun: ClassVar[float] = 0.0

    @classmethod
    def watch(cls) -> None:
        """Notes what it takes, from now on."""
        if cls._note not in gc.callbacks:
            gc.callbacks.append(cls._note)

    @classmethod
    def _note(cls, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            cls._begun = time.thread_time()
        else:
            cls.seconds = time.thread_time() - cls._begun
