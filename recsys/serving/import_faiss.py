import os
from importlib import import_module
from typing import Any

_WAITING = "OMP_WAIT_POLICY"


def import_faiss() -> Any:
    """Returns the module faiss, whose threads sleep while they wait.

    Otherwise they spin after each search, which takes the time of whatever
    else the server computes, TensorFlow first of all. The environment variable
    `OMP_WAIT_POLICY`, which OpenMP reads when it is loaded, has the last word.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    policy = os.environ.get(_WAITING)
    os.environ.setdefault(_WAITING, "passive")
    try:
        return import_module("faiss")
    finally:
        if policy is None:
            del os.environ[_WAITING]
