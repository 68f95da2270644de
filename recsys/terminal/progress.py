"""Progress of a command, shown from its first second on.

Importing this starts the clock, and imports nothing else.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_started = time.monotonic()
_shown = False


@contextmanager
def shown_progress(shown: bool = True) -> Iterator[None]:
    """Within, `announce` prints; elsewhere it does nothing.

    So the command line tells what the same functions in Python do in silence.

    Args:
        shown: Whether it prints. Defaults to `True`.

    Example:
    >>> with shown_progress(), shown_progress(False):
    ...     announce("Reading the data")
    """
    global _shown
    before, _shown = _shown, shown
    try:
        yield
    finally:
        _shown = before


def is_shown() -> bool:
    """Returns whether `announce` prints."""
    return _shown


def announce(doing: str) -> None:
    """Prints what is being done now, after the time since the process began.

    Args:
        doing: A few words, such as "Reading the data".
    """
    if _shown:
        minutes, seconds = divmod(int(time.monotonic() - _started), 60)
        print(f"[{minutes}:{seconds:02}] {doing}", flush=True)
