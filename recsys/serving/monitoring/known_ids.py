"""The ids that a model knows, beside its export.

A server without Keras cannot ask a model whether an id is known: the table is
inside the graph. `recsys export` therefore writes a sorted array of 64-bit keys
for each input with a vocabulary: integer ids themselves, or hashes of texts.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from recsys.errors import FileError
from recsys.errors.reading import reading
from recsys.serving.tensor_spec import TensorSpec

# In a SavedModel, `assets.extra` is for what TensorFlow does not read.
IDS_FOLDER = Path("assets.extra", "known_ids")
# Rows of a batch that are looked up: texts are hashed one by one.
_MOST_ROWS = 256


def write_known_ids(
    folder: Path, known: Mapping[str, Iterable[int] | Iterable[str]]
) -> None:
    """Writes the ids that a model knows, 8 bytes each.

    Args:
        folder: Folder of the model.
        known: By input, its ids.
    """
    for name, ids in known.items():
        (folder / IDS_FOLDER).mkdir(parents=True, exist_ok=True)
        np.save(folder / IDS_FOLDER / f"{name}.npy", np.sort(_keys([*ids])))


class KnownIds:
    """Tells known ids from unknown and missing ones.

    Args:
        inputs: The model's inputs.
        keys: By input, the sorted keys of the ids that it knows.
    """

    def __init__(
        self, inputs: Mapping[str, TensorSpec], keys: Mapping[str, np.ndarray]
    ) -> None:
        self._inputs = inputs
        self._keys = keys

    @classmethod
    def read(cls, folder: Path, inputs: Mapping[str, TensorSpec]) -> "KnownIds":
        """Reads what `write_known_ids` wrote; other models know no ids.

        Args:
            folder: Folder of the model.
            inputs: Its inputs.

        Raises:
            FileError: A file is broken.
        """
        keys = {}
        for name in inputs:
            file = folder / IDS_FOLDER / f"{name}.npy"
            if file.is_file():
                keys[name] = _read(file)
        return cls(inputs, keys)

    def count(
        self, inputs: Mapping[str, np.ndarray]
    ) -> dict[str, tuple[int, int, int]]:
        """Counts the ids of the first 256 rows of a batch.

        Args:
            inputs: By name, arrays `(rows, ...)`.

        Returns:
            By input, how many ids are known, unknown and missing; padding of
            lists counts as none of them.
        """
        counts = {}
        for name, keys in self._keys.items():
            if name not in inputs:
                continue
            values = inputs[name][:_MOST_ROWS]
            is_list = values.ndim > 1
            values = values.reshape(-1)  # (rows * length,)
            default = self._inputs[name].default
            if default is None:
                present = values
            else:
                present = values[values != default.reshape(-1)[0]]
            given = _keys(present.tolist())
            places = np.searchsorted(keys, given)
            places = np.minimum(places, len(keys) - 1)
            known = int((keys[places] == given).sum()) if len(keys) else 0
            missing = 0 if is_list else len(values) - len(present)
            counts[name] = known, len(present) - known, missing
        return counts


def _read(file: Path) -> np.ndarray:
    with reading(file, "the known ids that `recsys export` has written"):
        # Most of a large array is never touched.
        keys: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    if keys.dtype != np.int64 or keys.ndim != 1:
        raise FileError.at(file, "int64 (ids,)", f"{keys.dtype} {keys.shape}")
    return keys


def _keys(ids: list[Any]) -> np.ndarray:
    """Integers as they are, texts hashed.

    An unknown text is taken for one of 10^8 known ones at a chance of 5e-12.
    """
    if all(isinstance(id, int) for id in ids):
        return np.array(ids, np.int64)
    texts = (id.encode() if isinstance(id, str) else id for id in ids)
    digests = (blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.int64)
