from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from recsys.columns.column_values import as_strings
from recsys.columns.kind import Kind
from recsys.errors import DataError
from recsys.features.id_positions import integers_among
from recsys.features.id_turnover import IdTurnover
from recsys.features.id_values import Unseen
from recsys.features.id_values import as_ids
from recsys.serving.tensor_spec import ListLength

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from keras_moe.types import Tensor
    from recsys.features.onnx_graph import OnnxGraph
    from recsys.features.onnx_graph import OnnxValue
    from recsys.features.vocabulary import Vocabulary

# What a served model takes for a missing value, and behind the end of a list.
MISSING = {"string": "", "int64": -(2**63), "float32": np.nan}

FittedFeatures = Mapping[str, "FittedFeature"]
NONE: FittedFeatures = MappingProxyType({})

# What was fitted for a feature, ready for JSON.
State: TypeAlias = dict[str, Any]

# Rows of a table, a tensor `(..., dim)`; `None` for a feature without one.
Rows: TypeAlias = Any

# A function of a tensor of TensorFlow, and the resources that it needs.
RawEncoder: TypeAlias = tuple[
    Callable[["tf.Tensor"], "tf.Tensor"], list[object]
]


class Feature(Kind):
    """A kind of feature: what a model may look at.

    Data are prepared and checked without Keras, whose import takes seconds:
    what needs it, or TensorFlow, imports it in the method that does.

    Attributes:
        has_vocabulary: Whether it has ids that are numbered.
        groups: Whether its values can tell which rows belong together.
    """

    has_vocabulary: ClassVar[bool] = False
    groups: ClassVar[bool] = False

    @property
    def routable(self) -> bool:
        """Whether gates that route by an id can route by it."""
        return False

    @property
    def shares(self) -> str | None:
        """Feature whose vocabulary and table it takes, `None` for none."""
        return None

    def check_among(self, features: Mapping[str, "Feature"], name: str) -> None:
        """Checks what the feature says of others of its data set.

        Args:
            features: All features of the data set.
            name: This one's name.

        Raises:
            DataError: Another one is missing, or of a kind that cannot be.
        """

    def unseen(self, column: pd.Series, train: pd.Series) -> Unseen | None:
        """Tells what of a split the training split does not know.

        Args:
            column: The column in the split.
            train: The column in the training split.

        Returns:
            `None` for what is not known or unknown, such as numbers.
        """
        return None

    def fit(
        self, parts: Iterable[pd.Series], owners: "FittedFeatures" = NONE
    ) -> "FittedFeature":
        """Learns what a model needs to know of the training split.

        Args:
            parts: The column, part by part, each read once.
            owners: The features that share no table, fitted.
        """
        raise NotImplementedError

    def after_day(
        self,
        parts: Iterable[pd.Series],
        before: "FittedFeature | None",
        turnover: IdTurnover,
    ) -> "FittedFeature":
        """Returns the feature after a further day, whose ids come and go.

        A kind with `has_vocabulary` defines it.

        Args:
            parts: The column of that day, part by part, each read once.
            before: The feature before it; `None` on the first day.
            turnover: What says which ids enter and leave.
        """
        raise NotImplementedError

    def restore(
        self, state: State, owners: "FittedFeatures" = NONE
    ) -> "FittedFeature":
        """Returns what was fitted.

        Args:
            state: What `get_state` of it returned.
            owners: The features that share no table, restored.
        """
        raise NotImplementedError


def sharing_last(features: Mapping[str, Feature]) -> list[str]:
    """Returns the names of features, those that share a table at the end."""
    return sorted(features, key=lambda name: features[name].shares is not None)


class FittedFeature:
    """A feature as a model has it: with what its training split taught.

    What has to be looked up goes to a table of the model, in which row 0 stands
    for whatever is unknown: one of its own, with `num_rows` rows, or that of
    another feature.

    Attributes:
        num_rows: How many rows its own table has, `None` without one.
        dim: Width of its own table, `None` for the model's `embedding_dim`.
        of: Feature whose table it shares, `None` without one.
        query: Feature whose row of that table `vectors` needs as well.
        vocabulary: What numbers its ids, `None` without ids.
        raw_rank: How many dimensions a SavedModel's input for it has.
        raw_shape: Their sizes, `None` where any will do.
        raw_length: How much of a list the model looks at, `None` where it is
            all of it or the feature is no list.
        raw_dtype: What a SavedModel takes for it: `"float32"`, `"int64"` or
            `"string"`.

    Args:
        kind: What it is declared as.
    """

    num_rows: int | None = None
    dim: int | None = None
    of: str | None = None
    query: str | None = None
    vocabulary: "Vocabulary | None" = None
    raw_rank = 1
    raw_dtype: str
    raw_length: ListLength | None = None

    def __init__(self, kind: Feature) -> None:
        self.kind = kind

    @property
    def raw_shape(self) -> tuple[int | None, ...]:
        return (None,) * self.raw_rank

    def grown(
        self, parts: Iterable[pd.Series], owners: FittedFeatures = NONE
    ) -> "FittedFeature":
        """Returns the feature with a further training split taken in.

        A feature with a vocabulary numbers the new ids behind those it knows.
        All else that was fitted stays, as here: what a model has learned, it
        has learned for these moments, borders and lengths.

        Args:
            parts: The column, part by part, each read once.
            owners: The features that share no table, grown.
        """
        return self

    def encode(self, column: pd.Series) -> np.ndarray:
        """Returns a checked column as the array that a model takes.

        Args:
            column: As `check` of the kind returns it.

        Returns:
            An int32 or float32 array `(rows, ...)`.
        """
        raise NotImplementedError

    def renumbered(self, values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Returns encoded values after the numbers of ids have changed.

        Args:
            values: What `encode` has returned.
            numbers: The new number of each former one, an integer array
                `(former ids + 1,)`; of a feature that shares a vocabulary,
                those of its owner.
        """
        return values

    def check_encoded(self, name: str, values: np.ndarray) -> None:
        """Checks that an array is what `encode` returns.

        Args:
            name: The feature, for the error message.
            values: An array of numbers that has been kept.

        Raises:
            DataError: It is not.
        """
        if values.ndim != 1:
            raise DataError.at(
                f"feature {name!r}", "one value per row", f"{values.shape}"
            )

    def ids(self, values: "Tensor") -> "Tensor":
        """Returns what is looked up for a batch of what `encode` returns."""
        return values

    def create_layer(self) -> "keras.layers.Layer | None":
        """Makes what `vectors` trains beside the table, if there is any."""
        return None

    def width(self, dim: int) -> int:
        """Returns how many numbers `vectors` has for a row.

        Args:
            dim: Width of the table.
        """
        raise NotImplementedError

    def vectors(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
        query: "Tensor | None" = None,
    ) -> "Tensor":
        """Returns what the experts see of the feature, `(batch, width)`.

        Args:
            values: A batch of what `encode` returns.
            rows: The rows of the table for `ids` of it, `(..., dim)`.
            layer: What `create_layer` has made.
            query: The rows of the table for the feature `query`,
                `(batch, dim)`.
        """
        raise NotImplementedError

    def vectors_alone(
        self,
        values: "Tensor",
        rows: Rows = None,
        layer: "keras.layers.Layer | None" = None,
    ) -> "Tensor":
        """Returns `vectors` where there is nothing to ask about.

        Args:
            values: A batch of what `encode` returns.
            rows: The rows of the table for `ids` of it, `(..., dim)`.
            layer: What `create_layer` has made.
        """
        return self.vectors(values, rows, layer)

    def raw(self, column: pd.Series) -> np.ndarray:
        """Returns a checked column as a SavedModel takes it.

        Returns:
            Array of `raw_dtype`, or of texts as objects: NumPy's own type of
            texts loses the NUL characters that one ends with.
        """
        if self.raw_dtype == "string":
            return as_strings(column).fillna("").to_numpy(object)
        if self.raw_dtype == "int64":
            rows, integers = integers_among(as_ids(column, "ids"))
            raw = np.full(len(column), MISSING["int64"], np.int64)
            raw[rows] = integers
            return raw
        return column.to_numpy(self.raw_dtype, na_value=np.nan)

    def takes(self, column: pd.Series) -> npt.NDArray[np.bool_]:
        """Tells for which rows `raw` says all that a checked column does.

        An input of integers has no place for a text that is none, which
        other data than those of the training may have.

        Returns:
            Boolean array `(rows,)`.
        """
        if self.raw_dtype != "int64":
            return np.ones(len(column), bool)
        ids = as_ids(column, "ids")
        return integers_among(ids)[0] | ids.isna().to_numpy()

    def raw_missing(self) -> np.ndarray:
        """Returns what a SavedModel takes for a missing value.

        An input that a request leaves out has it in every row.

        Returns:
            Array of one row, as `raw` returns it, of `raw_rank` dimensions.
        """
        dtype = object if self.raw_dtype == "string" else self.raw_dtype
        missing = MISSING[self.raw_dtype]
        return np.full((1,) * self.raw_rank, missing, dtype)

    def raw_encoder(self) -> RawEncoder:
        """Returns `encode` as a SavedModel does it, under TensorFlow.

        Returns:
            A function from a tensor of `raw_dtype` and `raw_rank` dimensions
            to what `encode` returns, and the resources that it needs.
        """
        raise NotImplementedError

    def encode_onnx(self, graph: "OnnxGraph", raw: str) -> "list[OnnxValue]":
        """Adds `encode` to an ONNX graph.

        Args:
            graph: Where the nodes go.
            raw: Name of a tensor of `raw_dtype` and `raw_rank` dimensions.

        Returns:
            What `encode` returns; or several tensors, a tuple of which `ids`
            and `vectors` take in its place.
        """
        raise NotImplementedError

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> Collection[object]:
        """Draws values to try a model with, known, unknown and missing ones.

        Args:
            generator: Draws.
            count: How many.
        """
        raise NotImplementedError

    def get_state(self) -> State:
        """Returns what was fitted, ready for JSON; `restore` takes it."""
        raise NotImplementedError


def check_numbered(
    name: str, values: np.ndarray, least: int, most: int
) -> None:
    """Raises DataError unless all values are whole numbers in a range.

    Args:
        name: The feature, for the error message.
        values: An array.
        least: The smallest number that is right.
        most: The largest one.
    """
    smallest, largest = values.min(initial=most), values.max(initial=least)
    if values.dtype.kind == "f" or not least <= smallest <= largest <= most:
        raise DataError.at(
            f"feature {name!r}",
            f"numbers of ids, from {least} to {most}",
            f"{values.dtype} from {smallest} to {largest}",
        )
