"""The papers' experiments on Transformers and perceptrons, a file each."""

from importlib.util import find_spec

if find_spec("keras_hub") is None:
    raise ModuleNotFoundError(
        "The studies need KerasHub: pip install '.[studies]'", name="keras_hub"
    )
