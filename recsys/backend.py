"""The choice of the Keras backend, which holds for a whole process."""

import gc
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recsys.terminal.progress import announce

# What TensorFlow logs while it starts, on the many machines where all is well.
_KNOWN_NOISE = (
    b"All log messages before absl::InitializeLog()",
    b"oneDNN custom operations are on",
    b"oneDNN supports DT_BOOL only on platforms with AVX-512",
    b"Could not find cuda drivers",
    b"failed call to cuInit",
    b"binary is optimized to use available CPU instructions",
    b"To enable the following instructions",
    b"Unable to register cu",
    b"computation placer already registered",
    b"TF-TRT Warning: Could not find TensorRT",
)

# What one thread holds back, another must not take for the terminal.
_one_at_a_time = threading.RLock()


def start_backend(name: str | None) -> None:
    """Starts Keras with a backend, unless it runs already.

    Args:
        name: "tensorflow", "jax" or "torch"; `None` leaves the choice to
            Keras.

    Raises:
        ModuleNotFoundError: The backend is not installed.
        ValueError: Keras runs already, with another backend.
    """
    if "keras" not in sys.modules:
        announce(f"Starting Keras on {backend_to_start(name)}")
    with quiet_start():
        if "keras" not in sys.modules and name is not None:
            os.environ["KERAS_BACKEND"] = name
        import keras  # noqa: F401
    check_backend(name)


@contextmanager
def quiet_start() -> Iterator[None]:
    """Leaves out the known noise of a backend that is started inside.

    Nothing else is kept from the terminal, and all is shown after an error.

    Example:
    >>> with quiet_start():
    ...     import keras
    """
    if "keras" in sys.modules:
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with _one_at_a_time, _known_noise_left_out(), _uncollected():
        yield
        if "keras" in sys.modules:
            # The first operation looks for devices. A transposed boolean, as
            # sparse execution has it, is what oneDNN has something to say to.
            ops = sys.modules["keras"].ops
            ops.transpose(ops.zeros((1, 1), "bool"))


def backend_to_start(name: str | None) -> str:
    """Returns which backend `start_backend` starts, without starting it.

    Args:
        name: As there.
    """
    if "keras" in sys.modules:
        return str(sys.modules["keras"].backend.backend())
    if name or os.environ.get("KERAS_BACKEND"):
        return name or os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME", Path.home() / ".keras")
    try:
        settings = json.loads(Path(home, "keras.json").read_text("utf-8"))
        return str(settings["backend"])
    except (OSError, ValueError, KeyError):
        return "tensorflow"  # As Keras does without its file.


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


def accelerator() -> str | None:
    """Returns the name of the first accelerator that Keras computes on.

    Returns:
        Such as `"NVIDIA H100 80GB HBM3"`; `None` where processors alone do.
    """
    import keras

    return _ACCELERATORS[keras.backend.backend()]()


def _of_tensorflow() -> str | None:
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return None
    details = tf.config.experimental.get_device_details(devices[0])
    return str(details.get("device_name", devices[0].device_type))


def _of_jax() -> str | None:
    import jax

    device = jax.devices()[0]
    return None if device.platform == "cpu" else str(device.device_kind)


def _of_torch() -> str | None:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


_ACCELERATORS = {
    "tensorflow": _of_tensorflow,
    "jax": _of_jax,
    "torch": _of_torch,
}


@contextmanager
def _uncollected() -> Iterator[None]:
    """Looks for no garbage inside, where a backend is imported.

    Its modules are millions of objects that stay, and each collection among
    them would visit them all.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _known_noise_left_out() -> Iterator[None]:
    """Holds back what is logged below Python, then shows what is of use.

    TensorFlow logs several lines while it starts, before its log level holds.
    """
    try:
        terminal = os.dup(2)
    except OSError:  # A process without one.
        yield
        return
    noise: tuple[bytes, ...] = _KNOWN_NOISE
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
        except Exception:  # Whoever interrupts it knows why it ends.
            noise = ()
            raise
        finally:
            os.dup2(terminal, 2)
            held_back.seek(0)
            for line in held_back:
                if not any(words in line for words in noise):
                    os.write(terminal, line)
            os.close(terminal)
