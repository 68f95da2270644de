"""The choice of the Keras backend, which holds for a whole process."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def start_backend(name: str | None) -> None:
    """Starts Keras with a backend, unless it runs already.

    Args:
        name: "tensorflow", "jax" or "torch"; `None` leaves the choice to
            Keras.

    Raises:
        ValueError: Keras runs already, with another backend.
    """
    if "keras" not in sys.modules:
        if name is not None:
            os.environ["KERAS_BACKEND"] = name
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        with _native_logs_held_back():
            import keras

            keras.ops.zeros(1)
    check_backend(name)


def check_backend(name: str | None) -> None:
    """Checks that a wanted backend is the active one.

    Args:
        name: The wanted backend; `None` wants none in particular.

    Raises:
        ValueError: Keras runs with another backend.
    """
    import keras

    active = keras.backend.backend()
    if name not in (None, active):
        raise ValueError(
            f"`backend` must be {active!r}, which Keras is running with; for "
            f"another, set the environment variable KERAS_BACKEND={name} "
            f"before Keras is imported. Received: backend={name!r}"
        )


@contextmanager
def _native_logs_held_back() -> Iterator[None]:
    """Keeps what native code logs off the terminal, unless something fails.

    TensorFlow logs several lines while it starts, before its log level holds.
    """
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except BaseException:
            held_back.seek(0)
            os.write(terminal, held_back.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
