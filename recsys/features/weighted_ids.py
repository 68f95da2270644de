"""Lists of ids with a weight each: texts such as `drama:0.7`."""

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.columns.column_values import refuse
from recsys.errors import DataError
from recsys.features.feature import MISSING
from recsys.features.feature import Rows
from recsys.features.feature import check_numbered
from recsys.features.id_list import NOTHING
from recsys.features.id_list import FittedIdList
from recsys.features.id_positions import INTEGER_TEXT
from recsys.features.list_values import flattened
from recsys.features.list_values import split
from recsys.features.list_values import values_of
from recsys.features.pooling import WEIGHTED_POOLINGS

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue

_SEPARATOR = ":"  # The last one of a text.
_ITEM = re.compile(
    rf".+{_SEPARATOR}[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.DOTALL
)


def check_weighted(
    column: pd.Series, file: object, negative: bool
) -> pd.Series:
    """Returns lists of ids with weights in the one form that they have.

    Args:
        column: The lists; what is missing in one is left out.
        file: Where they come from, for the error message.
        negative: Whether weights may be negative.

    Raises:
        DataError: A value is no list, or a text in it no id with a weight.

    Example:
    >>> tags = pd.Series(["drama:0.7|war:.3", None])
    >>> [tag.tolist() for tag in check_weighted(tags, "log.csv", False)]
    [['drama:0.7', 'war:.3'], []]
    """
    values, lengths = flattened(column, file)
    items = values[values.notna() & (values != "")]
    wrong = ~items.map(_is_item).astype(bool)
    refuse(items, wrong, "`id:weight`, such as 'drama:0.7'", file)
    weights = pd.Series(ids_and_weights(items)[1], items.index)
    refuse(items, weights.abs() == np.inf, "a finite weight", file)
    if not negative:
        expected = "a weight of at least 0, as the pooling is a mean"
        refuse(items, weights < 0, expected, file)
    lengths = np.bincount(items.index, minlength=len(lengths))
    return split(items.to_numpy(object), lengths, column.name)


def _is_item(value: object) -> bool:
    return isinstance(value, str) and _ITEM.fullmatch(value) is not None


def ids_and_weights(
    items: pd.Series,
) -> tuple[pd.Series, npt.NDArray[np.float32]]:
    """Takes texts of an id and a weight apart.

    Args:
        items: The texts.

    Returns:
        The ids, strings, and the weights, a float32 array.
    """
    parts = [item.rpartition(_SEPARATOR) for item in items]
    ids = pd.Series([id for id, _, _ in parts], dtype=object)
    weights = np.array([float(weight) for _, _, weight in parts])
    with np.errstate(over="ignore"):  # Infinite, which `check` refuses.
        return ids, weights.astype(np.float32)


class FittedWeightedIds(FittedIdList):
    """A list of weighted ids with the ids of the training split.

    The array that a model takes, int32 `(rows, length, 2)`, has the bits of
    the weights, float32, behind the numbers of the ids: an array of floats has
    not room for all numbers of ids. ONNX, which does not look at bits, has two
    tensors `(rows, length)` in its place.
    """

    raw_dtype = "string"

    def encode(self, column: pd.Series) -> np.ndarray:
        ids, weights = ids_and_weights(values_of(column))
        bits = weights.view(np.int32)
        pairs = np.stack([self.vocabulary.encode(ids), bits], axis=-1)
        return self._padded(column, pairs)

    def renumbered(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        changed = super().renumbered(values[..., 0], numbers)
        return np.stack([changed, values[..., 1]], axis=-1)

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        if values.ndim != 3 or values.shape[2] != 2:
            raise DataError.at(
                f"feature {name!r}",
                "a list of ids with weights per row",
                f"{values.shape}",
            )
        numbers = values[..., 0]
        check_numbered(name, numbers, NOTHING, self.vocabulary.size)

    def ids(self, values: "Tensor") -> "Tensor":
        return super().ids(_numbers_and_weights(values)[0])

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        from keras import ops

        numbers, weights = _numbers_and_weights(values)
        # Behind the end of a list, their bits are those of no number.
        weights = ops.where(numbers[..., None] >= 0, weights, 0.0)
        return WEIGHTED_POOLINGS[self.kind.pooling](rows, weights)

    def _encode_raw(
        self, values: "tf.Tensor", table: "tf.lookup.StaticHashTable"
    ) -> "tf.Tensor":
        import tensorflow as tf

        ids = tf.strings.regex_replace(values, f"{_SEPARATOR}[^:]*$", "")
        if not self.vocabulary.holds_strings:
            whole = tf.strings.regex_full_match(ids, INTEGER_TEXT)
            ids = tf.where(whole, ids, str(MISSING["int64"]))  # Unknown.
            ids = tf.strings.to_number(ids, tf.int64)
        texts = tf.strings.regex_replace(values, f"(?s)^.*{_SEPARATOR}", "")
        # As NumPy rounds them, which reads numbers in float64.
        weights = tf.cast(tf.strings.to_number(texts, tf.float64), tf.float32)
        bits = tf.bitcast(weights, tf.int32)
        return tf.stack([table.lookup(ids), bits], axis=-1)

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        from recsys.features.onnx_graph import OnnxValue

        raw, kept = self._keep_onnx(graph, raw)
        nothing = graph.constant(f"{_SEPARATOR}0", "object")
        items = graph.add("Where", kept, raw, nothing)
        parts, count = graph.add_all(  # (batch, length, parts), (batch, length)
            "StringSplit", items, outputs=2, delimiter=_SEPARATOR
        )
        last = graph.add("Sub", count, graph.constant(1))
        numbers = graph.add(
            "Where",
            kept,
            self._numbers_onnx(graph, parts, last),
            graph.constant(NOTHING, "int32"),
        )
        axis = graph.constant([2])
        place = graph.add("Unsqueeze", last, axis)
        texts = graph.add("GatherElements", parts, place, axis=2)
        # As NumPy rounds them, which reads numbers in float64.
        weights = graph.cast(graph.cast(texts, "float64"), "float32")
        weights = graph.add("Squeeze", weights, axis)
        return [
            OnnxValue(numbers, "int32", (None, None)),
            OnnxValue(weights, "float32", (None, None)),
        ]

    def _numbers_onnx(self, graph: "OnnxGraph", parts: str, count: str) -> str:
        """Adds the numbers of ids that have been split to an ONNX graph.

        Args:
            graph: Where the nodes go.
            parts: Name of what stood between the separators, strings
                `(batch, length, parts)`.
            count: Name of how many of them are the id's, `(batch, length)`.
        """
        strings = self.vocabulary.holds_strings
        known = self.vocabulary.values if strings else ()
        most = 1 + max((id.count(_SEPARATOR) for id in known), default=0)
        room = graph.add(  # (batch, length, most)
            "Concat",
            graph.add("Shape", count),
            graph.constant([most]),
            axis=0,
        )
        empty = graph.constant("", "object")
        more = graph.add("Expand", empty, room)
        parts = graph.add("Concat", parts, more, axis=2)
        separator = graph.constant(_SEPARATOR, "object")
        ids = graph.add("Gather", parts, graph.constant(0), axis=2)
        for index in range(1, most):
            part = graph.add("Gather", parts, graph.constant(index), axis=2)
            ids = graph.add(
                "StringConcat",
                ids,
                graph.add(
                    "Where",
                    graph.add("Greater", count, graph.constant(index)),
                    graph.add("StringConcat", separator, part),
                    empty,
                ),
            )
        if not strings:
            whole = graph.add("RegexFullMatch", ids, pattern=INTEGER_TEXT)
            unknown = graph.constant(str(MISSING["int64"]), "object")
            ids = graph.cast(graph.add("Where", whole, ids, unknown), "int64")
        return graph.add(
            "Where",  # No known id has more parts.
            graph.add("LessOrEqual", count, graph.constant(most)),
            self.vocabulary.look_up_onnx(graph, ids),
            graph.constant(0, "int32"),
        )

    def sample(self, generator: np.random.Generator, count: int) -> pd.Series:
        def weighted(ids: np.ndarray) -> np.ndarray:
            weights = generator.random(len(ids)).round(3)
            items = [
                f"{id}{_SEPARATOR}{weight}"
                for id, weight in zip(ids, weights, strict=True)
            ]
            return np.array(items, object)

        return super().sample(generator, count).map(weighted)


def _numbers_and_weights(values: "Tensor") -> "tuple[Tensor, Tensor]":
    """The numbers of ids `(batch, length)`, their weights `(..., 1)`."""
    from keras import ops

    if isinstance(values, tuple):
        numbers, weights = values
        return numbers, weights[..., None]
    # TensorFlow needs to know the last axis.
    return values[..., 0], ops.view(values[..., 1:], "float32")
