"""Layers as a notebook shows them: a table in a table for each part."""

from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from html import escape

import keras

from keras_moe.layers.configuration import LONGEST_LIST
from keras_moe.layers.configuration import shown_arguments

# The arguments of a layer that are not shown; `None` for one that shows none.
HiddenOf = Callable[[keras.layers.Layer], Collection[str] | None]


def layer_html(layer: keras.layers.Layer, hidden_of: HiddenOf) -> str:
    """Returns a layer as HTML: its class, arguments, weights and parts.

    It has no colours, so that it suits light and dark notebooks.

    Args:
        layer: A layer whose configuration holds its arguments.
        hidden_of: Says which arguments of it, and of layers inside, are not
            to be shown; `None` for a layer whose name is enough.
    """
    return _part("", layer, hidden_of)


def _part(role: str, layer: keras.layers.Layer, hidden_of: HiddenOf) -> str:
    hidden = hidden_of(layer)
    if hidden is None:
        return _details(role, type(layer).__name__, layer.name, "")
    cells, parts = [], []
    for name, value in shown_arguments(layer, hidden).items():
        inside = [*_layers(name, value)]
        parts += [_part(*pair, hidden_of) for pair in inside[:LONGEST_LIST]]
        if len(inside) > LONGEST_LIST:
            parts.append(f"<p>and {len(inside) - LONGEST_LIST} more</p>")
        if not inside:
            cells.append((name, str(value)))
    if layer.built:
        cells.append(("weights", f"{layer.count_params():,}"))
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
        for name, value in cells
    )
    content = f"<table>{rows}</table>{''.join(parts)}"
    return _details(role, type(layer).__name__, layer.name, content)


def _layers(
    name: str, value: object
) -> Iterator[tuple[str, keras.layers.Layer]]:
    """The layers of an argument, each with what it is there."""
    if isinstance(value, keras.layers.Layer):
        yield name, value
    elif isinstance(value, Mapping):
        for key, layer in value.items():
            yield f"{name}[{key!r}]", layer
    elif isinstance(value, list | tuple):
        for number, layer in enumerate(value):
            if isinstance(layer, keras.layers.Layer):
                yield f"{name}[{number}]", layer


def _details(role: str, kind: str, name: str, content: str) -> str:
    what = f"{escape(role)}: " if role else ""
    title = f"{what}<b>{escape(kind)}</b> {escape(name)}"
    return (
        '<details open style="margin-left: 1em">'
        f"<summary>{title}</summary>{content}</details>"
    )
