import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import keras
import numpy as np
import pandas as pd

from keras_moe.types import Config
from recsys.errors import FileError
from recsys.features.id_positions import id_positions
from recsys.features.id_uses import IdUses
from recsys.features.id_values import as_ids

if TYPE_CHECKING:
    import tensorflow as tf

    from recsys.features.onnx_graph import OnnxGraph

_IDS_AT_ONCE = 1 << 17


@keras.saving.register_keras_serializable(package="recsys")
class Vocabulary(keras.layers.Layer):
    """The ids of one feature, numbered from 1; 0 is whatever is unknown.

    It encodes columns outside of the compiled model. It is a layer so that it
    is saved with the model that was trained on its numbers.

    Attributes:
        values: The known ids in the order of their numbers, integers or
            strings.
        uses: When and how often the ids occurred; `None` where they are not
            counted day by day.

    Args:
        size: Integer, how many ids are known.
        **kwargs: `name`.

    Example:
    >>> vocabulary = Vocabulary.of(pd.Series(["b", "a", None, "b"]))
    >>> vocabulary.encode(pd.Series(["a", "c", None, "b"])).tolist()
    [1, 0, 0, 2]
    """

    def __init__(self, size: int, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.size = size
        self.values: pd.Index = pd.Index([])
        self.uses: IdUses | None = None
        self.built = True

    @classmethod
    def of(cls, column: pd.Series) -> "Vocabulary":
        """Returns the vocabulary of a column's ids, missing ones left out."""
        ids = as_ids(column, "ids").dropna().unique()
        return cls.of_sorted(np.sort(ids).tolist())

    @classmethod
    def of_sorted(cls, values: pd.Index | Sequence[object]) -> "Vocabulary":
        """Returns the vocabulary of different ids in ascending order.

        Args:
            values: The ids, a `pandas.Index` or a list, integers or strings.
                Integers that `as_ids` has as texts become strings.
        """
        vocabulary = cls(len(values))
        vocabulary.values = _in_one_form(values)
        return vocabulary

    def grown(self, ids: pd.Index) -> "Vocabulary":
        """Returns the vocabulary with further ids behind its own.

        The ids that are known keep their numbers, whether they are among the
        further ones or not. All ids become strings as soon as some are. The
        new vocabulary has no uses.

        Args:
            ids: Different ids in ascending order, integers or strings.

        Example:
        >>> vocabulary = Vocabulary.of(pd.Series(["b", "d"]))
        >>> grown = vocabulary.grown(pd.Index(["a", "b", "c"]))
        >>> grown.values.tolist()
        ['b', 'd', 'a', 'c']
        """
        known, ids = self.values, _in_one_form(ids)
        integers = map(pd.api.types.is_integer_dtype, (known, ids))
        if len(known) and len(ids) and len(set(integers)) > 1:
            known, ids = known.map(str), ids.map(str).sort_values()
        new = ids[~ids.isin(known)]
        return Vocabulary.of_sorted(known.append(new))

    @property
    def holds_strings(self) -> bool:
        """True if the ids are strings, `False` if they are integers."""
        return not pd.api.types.is_integer_dtype(self.values)

    def encode(self, column: pd.Series) -> np.ndarray:
        """Returns the number of each id, an int32 array `(rows,)`.

        What makes two values one id, `recsys.features.id_values` says: an
        integer is the string that Python writes it as, and no other.

        Args:
            column: Ids of any type; missing ones are unknown.

        Raises:
            DataError: A value is no id.
        """
        return (id_positions(column, self.values) + 1).astype("int32")

    @property
    def raw_dtype(self) -> str:
        """The type of ids that are not numbered: `"string"` or `"int64"`."""
        return "string" if self.holds_strings else "int64"

    def lookup_table(self) -> "tf.lookup.StaticHashTable":
        """Returns a table of TensorFlow that numbers ids; 0 if unknown."""
        import tensorflow as tf

        numbers = {id: i for i, id in enumerate(self.values.tolist(), 1)}
        numbers = numbers or {"": 0}  # TensorFlow has no empty table.
        return tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(numbers), self.raw_dtype),
                tf.constant(list(numbers.values()), tf.int32),
            ),
            default_value=0,
        )

    def look_up_onnx(self, graph: "OnnxGraph", ids: str) -> str:
        """Adds the numbering of ids to an ONNX graph; 0 if unknown.

        Args:
            graph: Where the nodes go.
            ids: Name of a tensor of `raw_dtype`.

        Returns:
            The name of an int32 tensor of the same shape.
        """
        strings = self.holds_strings
        # ONNX has no empty table.
        known = self.values.tolist() or ["" if strings else 0]
        kind = "strings" if strings else "int64s"
        numbers = graph.add(
            "LabelEncoder",
            ids,
            domain="ai.onnx.ml",
            **{f"keys_{kind}": known},
            values_int64s=range(1, len(known) + 1) if self.size else [0],
            default_int64=0,
        )
        return graph.cast(numbers, "int32")

    def sample(
        self, generator: np.random.Generator, count: int
    ) -> list[int | str]:
        """Draws ids, among them one that is unknown.

        Args:
            generator: Draws.
            count: How many.
        """
        known = self.values.tolist()
        if self.holds_strings:
            unknown = max(known, key=len, default="") + "?"
        else:
            taken = set(known)
            unknown = next(i for i in itertools.count() if i not in taken)
        ids = [*known, unknown]
        drawn = generator.integers(0, len(ids), count)
        drawn[::7] = len(known)  # The unknown one, however many others.
        return [ids[index] for index in drawn]

    def check(self, name: str) -> None:
        """Checks that the ids are there that a saved model was trained with.

        Keras does not miss them where its file has none.

        Args:
            name: The feature, for the error message.

        Raises:
            FileError: There are more or fewer ids than numbers, one of them
                twice, or what is no id.
        """
        kind = pd.api.types.infer_dtype(self.values)
        if kind not in ("integer", "string", "empty"):
            received = f"values of type {kind}"
        elif len(self.values) != self.size:
            received = f"{len(self.values):,}"
        elif not self.values.is_unique:
            received = "some of them twice"
        elif self.uses and not self.uses.is_consistent(self.size):
            received = "uses of others"
        else:
            return
        raise FileError.at(
            f"vocabulary of {name!r}", f"{self.size:,} different ids", received
        )

    def save_assets(self, dir_path: str) -> None:
        """Saves the ids, called by Keras."""
        _write_ids(Path(dir_path, "values.json"), self.values)
        if self.uses is None:
            return
        _write_ids(Path(dir_path, "others.json"), self.uses.unnumbered)
        last = np.append(self.uses.day, self.uses.last)
        np.save(Path(dir_path, "last.npy"), last.astype(np.int32))
        counted = [self.uses.ids, self.uses.days, self.uses.counts]
        fits = self.uses.counts.max(initial=0) <= np.iinfo(np.int32).max
        dtype = np.int32 if fits else np.int64
        np.save(Path(dir_path, "counted.npy"), np.array(counted, dtype))

    def load_assets(self, dir_path: str) -> None:
        """Loads the ids, called by Keras."""
        text = Path(dir_path, "values.json").read_text(encoding="utf-8")
        self.values = _in_one_form(json.loads(text))
        file = Path(dir_path, "others.json")
        if not file.is_file():
            return
        # Mapped files have to be as large as their headers say.
        last = np.load(Path(dir_path, "last.npy"), mmap_mode="r")
        ids, days, counts = np.load(
            Path(dir_path, "counted.npy"), mmap_mode="r"
        )
        self.uses = IdUses(
            int(last[0]),
            np.array(last[1:]),
            _in_one_form(json.loads(file.read_text(encoding="utf-8"))),
            ids.astype(np.int32),
            days.astype(np.int32),
            counts.astype(np.int64),
        )

    def get_config(self) -> Config:
        return {**super().get_config(), "size": self.size}


def _write_ids(file: Path, index: pd.Index) -> None:
    """Writes ids as JSON, in parts: ten million as one text take gigabytes."""
    with file.open("w", encoding="utf-8") as stream:
        stream.write("[")
        for start in range(0, len(index), _IDS_AT_ONCE):
            ids = index[start : start + _IDS_AT_ONCE].tolist()
            text = json.dumps(ids, ensure_ascii=False)
            stream.write((", " if start else "") + text[1:-1])
        stream.write("]")


def _in_one_form(ids: pd.Index | Sequence[object]) -> pd.Index:
    """Ids as `as_ids` has them, whatever else is among them as it is."""
    index = pd.Index(ids).infer_objects()
    if pd.api.types.infer_dtype(index) != "integer":
        return index
    return pd.Index(as_ids(pd.Series(index), "ids"))
