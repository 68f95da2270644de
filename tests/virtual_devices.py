"""Virtual devices of the CPU; JAX counts them when it starts."""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.examples import Drawn

ROOT = Path(__file__).parents[1]


def environment(count: int) -> dict[str, str]:
    """The variables of a process in which JAX sees so many devices."""
    flags = f"--xla_force_host_platform_device_count={count}"
    variables = {"KERAS_BACKEND": "jax", "KERAS_MOE_CHECK_VALUES": "1"}
    # The other flags, of tests/conftest.py, let XLA compile sooner.
    known = os.environ.get("XLA_FLAGS", "")
    return {**os.environ, **variables, "XLA_FLAGS": f"{known} {flags}"}


def results_of(module: str, file: Path, count: int = 4) -> dict[Any, Any]:
    """Runs a module on devices; returns what it pickles into the file.

    It gets the word `few` where fewer examples will do.
    """
    words = ["few"] if Drawn.few else []
    subprocess.run(
        [sys.executable, "-m", module, str(file), *words],
        check=True,
        cwd=ROOT,
        env=environment(count),
    )
    return dict(pickle.loads(file.read_bytes()))
