"""One JSON line for everything that is measured."""

import json
import os
import platform
from typing import Any

import keras


def report(**fields: Any) -> None:
    """Prints the fields, with the backend and the device that they are of."""
    backend = keras.backend.backend()
    line = {"backend": backend, "device": _device_name(), **fields}
    print(json.dumps(line), flush=True)


def _device_name() -> str:
    backend = keras.backend.backend()
    if backend == "torch":
        import torch

        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name())
    elif backend == "jax":
        import jax

        if jax.default_backend() != "cpu":
            return str(jax.devices()[0].device_kind)
    elif backend == "tensorflow":
        import tensorflow as tf

        for gpu in tf.config.list_physical_devices("GPU"):
            details = tf.config.experimental.get_device_details(gpu)
            return str(details.get("device_name", gpu.name))
    return f"{os.cpu_count()} cores, {platform.machine()}"
