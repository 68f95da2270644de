from collections.abc import Mapping

import numpy as np
import pandas as pd

from recsys.features.feature import Feature
from recsys.features.feature import FittedFeature
from recsys.features.list_values import places_of
from recsys.features.list_values import values_of
from recsys.serving.tensor_spec import TensorSpec


class _Raw(FittedFeature):
    """A feature of which nothing is known but the input of a model."""

    def __init__(self, kind: Feature, dtype: str) -> None:
        super().__init__(kind)
        self.raw_dtype = dtype


def raw_input(column: pd.Series, kind: Feature, spec: TensorSpec) -> np.ndarray:
    """Returns a column as an exported model takes it, without its run.

    Args:
        column: As `check` of the kind returns it.
        kind: What the data declare it as.
        spec: The model's input for it.

    Returns:
        Array `(rows,)`, `(rows, longest)` of lists, padded, or `(rows, size)`
        of vectors, zeros where one is missing; texts are objects.
    """
    raw = _Raw(kind, spec.dtype)
    if len(spec.shape) == 1:
        return _encoded(raw.raw(column))
    if spec.filler is None:  # Vectors.
        vectors = np.zeros((len(column), spec.shape[1] or 0), spec.dtype)
        there = column.map(len).to_numpy(bool)
        if there.any():
            vectors[there] = np.stack(column[there].tolist())
        return vectors
    rows, places = places_of(column)
    shape = (len(column), max(1, int(places.max(initial=0)) + 1))
    dtype = object if spec.dtype == "string" else spec.dtype
    lists = np.full(shape, spec.filler, dtype)
    lists[rows, places] = _encoded(raw.raw(values_of(column)))
    return lists


def raw_inputs(
    rows: pd.DataFrame,
    kinds: Mapping[str, Feature],
    inputs: Mapping[str, TensorSpec],
    names: Mapping[str, str],
) -> dict[str, np.ndarray]:
    """Returns rows of features as all inputs of a model.

    Args:
        rows: The features' columns, as `recsys.data.columns.parse` has them.
        kinds: By feature, its kind.
        inputs: The model's inputs.
        names: By feature, the name of its input.

    Returns:
        By input, an array `(rows, ...)`; the default where `names` has no
        feature for it.
    """
    raw = {name: spec.rows(len(rows)) for name, spec in inputs.items()}
    for feature, name in names.items():
        raw[name] = raw_input(rows[feature], kinds[feature], inputs[name])
    return raw


def _encoded(values: np.ndarray) -> np.ndarray:
    """Texts as bytes, as a server has them."""
    if values.dtype != object:
        return values
    encoded = np.empty(len(values), object)
    encoded[:] = [text.encode() for text in values]
    return encoded
