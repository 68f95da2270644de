"""Lists what users of keras_moe may rely on: each public name, how to call it.

Run this when a change of the public interface is meant; read the difference:

    python -m tests.keras_moe.public_api
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from keras_moe import callbacks
from keras_moe import compress
from keras_moe import distribution
from keras_moe import layers
from keras_moe import metrics
from keras_moe import ops
from keras_moe import optimizers
from keras_moe import regularizers

LISTING = Path(__file__).with_name("public_api.txt")
MODULES = (
    callbacks,
    compress,
    distribution,
    layers,
    metrics,
    ops,
    optimizers,
    regularizers,
)


def exports(module: ModuleType) -> dict[str, Any]:
    """What a package exports; not the modules that it is made of."""
    return {
        name: value
        for name, value in sorted(vars(module).items())
        if not name.startswith("_") and not inspect.ismodule(value)
    }


def listing() -> str:
    """A line for each name: where it is, its parameters and their defaults."""
    public = {value for module in MODULES for value in exports(module).values()}
    lines = []
    for module in MODULES:
        for name, value in exports(module).items():
            path = f"{module.__name__}.{name}"
            lines.append(f"{path}{_signature(value)}")
            if inspect.isclass(value):
                lines += _members(path, value, public)
    return "".join(f"{line}\n" for line in lines)


def _members(path: str, owner: type, public: set[Any]) -> Iterator[str]:
    """What a class has beyond its listed bases and those of Keras or Python.

    What it overrides is listed there, but for a layer's `call`.
    """
    own: dict[str, Any] = {}
    known = set()
    for base in owner.__mro__:
        ours = base.__module__.partition(".")[0] == "keras_moe"
        if ours and (base is owner or base not in public):
            own = {**vars(base), **own}
        else:
            known |= set(vars(base)) - ({"call"} if not ours else set())
    for name, value in sorted(own.items()):
        if not name.startswith("_") and name not in known:
            yield f"{path}.{name}{_signature(value)}"


def _signature(value: Any) -> str:
    """Nothing for what is not called."""
    if not inspect.isclass(value) and not inspect.isfunction(value):
        return ""
    parameters = [*inspect.signature(value).parameters.values()]
    if inspect.isclass(value) and inspect.isfunction(value.__init__):
        # Of a class that inherits both, Python before 3.11.4 takes `__new__`,
        # which is Keras's.
        _, *parameters = inspect.signature(value.__init__).parameters.values()
    return str(
        inspect.Signature(
            [each.replace(annotation=each.empty) for each in parameters]
        )
    )


if __name__ == "__main__":
    LISTING.write_text(listing(), encoding="utf-8")
