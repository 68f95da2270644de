import inspect
import reprlib
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from html import escape
from typing import Any

import keras
import numpy as np

from keras_moe.checks import check_tensor
from keras_moe.layers.configuration import described
from keras_moe.layers.layer_html import layer_html
from keras_moe.types import Structure
from keras_moe.types import Tensor


class CheckedLayer(keras.layers.Layer):
    """A layer that refuses wrong arguments of a call, each by its name.

    Keras itself finds them where some operation cannot go on, in the words of
    the backend. What the arguments have to be follows from their names in the
    signature of `call`, and from the properties below.
    """

    # What messages call it.
    _noun = "layer"
    _names: tuple[str, ...] = ()
    _required: tuple[str, ...] = ()

    @property
    def _smallest_ranks(self) -> Mapping[str, int]:
        """Minimum number of axes by tensor name."""
        return {}

    @property
    def _structured(self) -> Mapping[str, tuple[type, ...]]:
        """Types of containers by name, of arguments of several tensors."""
        return {}

    @property
    def _widths(self) -> Mapping[str, int | None]:
        """Size of the last axis by name of an argument, if known."""
        return {}

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # Not at each call, which may be one that a compiler traces.
        parameters = [
            parameter
            for parameter in inspect.signature(cls.call).parameters.values()
            if parameter.kind
            in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ][1:]
        cls._names = tuple(parameter.name for parameter in parameters)
        cls._required = tuple(
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:
        arguments = {**dict(zip(self._names, args, strict=False)), **kwargs}
        for name in self._required:
            if name in self._smallest_ranks and arguments.get(name) is None:
                raise TypeError(
                    f"`{name}` of the {self._noun} {self.name!r} must be a "
                    f"tensor. Received: {name}=None"
                )
        for name, value in arguments.items():
            if value is not None and name in self._names:
                self._check_argument(name, value)
        return super().__call__(*args, **kwargs)

    def _hidden_arguments(self) -> Collection[str]:
        """Arguments that do not tell what the layer is."""
        return {"name"}

    def __repr__(self) -> str:
        try:
            return described(self, self._hidden_arguments())
        except NotImplementedError:  # Of a layer of one's own without one.
            return str(super().__repr__())

    def _repr_html_(self) -> str:
        """Returns what a notebook shows."""
        try:
            return layer_html(self, _hidden_of)
        except NotImplementedError:
            return f"<pre>{escape(repr(self))}</pre>"

    def _check_argument(self, name: str, value: Structure) -> None:
        if name == "training":
            _check_training(name, value)
        elif name not in self._smallest_ranks and not name.endswith("mask"):
            return
        elif isinstance(value, self._structured.get(_unmasked(name), ())):
            for key, entry in _entries(value):
                if entry is not None or not name.endswith("mask"):
                    self._check_tensor(f"{name}[{key!r}]", name, entry)
        else:
            self._check_tensor(name, name, value)

    def _check_tensor(self, shown: str, name: str, value: Tensor) -> None:
        """Checks one tensor of the argument `name`, shown as `shown`."""
        check_tensor(shown, value, self._smallest_ranks.get(name, 0))
        width = self._widths.get(name)
        received = value.shape[-1] if width is not None else None
        if received is not None and received != width:
            raise ValueError(
                f"`{shown}` of the {self._noun} {self.name!r} must have "
                f"{width} features, the size of the last axis when it was "
                f"built. Received: {shown} of shape {tuple(value.shape)}"
            )


def _hidden_of(layer: keras.layers.Layer) -> Collection[str] | None:
    """The arguments of a layer that are not shown; `None` of any other."""
    if isinstance(layer, CheckedLayer):
        return layer._hidden_arguments()
    return None


def _unmasked(name: str) -> str:
    """The argument that a mask is of, `inputs` for plain `mask`."""
    return "inputs" if name == "mask" else name.removesuffix("_mask")


def _entries(structure: Structure) -> Iterable[tuple[str | int, Tensor]]:
    if isinstance(structure, Mapping):
        return structure.items()
    return enumerate(structure)


def _check_training(name: str, value: object) -> None:
    if not isinstance(value, (bool, int, np.bool_)):
        raise TypeError(
            f"`{name}` must be a boolean or None. Received: "
            f"{name}={reprlib.repr(value)} of type {type(value).__name__}"
        )
