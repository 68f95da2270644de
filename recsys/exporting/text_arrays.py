"""Arrays of texts in `.npz` files, which hold texts of one width alone.

NumPy fills short texts up with NUL characters, and takes those that a text
ends with for such. A letter behind each text keeps them apart.
"""

from typing import Any

import numpy as np

_END = "."


def packed(values: np.ndarray) -> Any:
    """Returns an array as `numpy.savez` writes it without pickling objects.

    Args:
        values: Array of any shape; texts, or their bytes in UTF-8, are
            objects in it.

    Example:
    >>> texts = np.array(["a", "a" + chr(0)], object)
    >>> unpacked(packed(texts)).tolist() == texts.tolist()
    True
    """
    if values.dtype != object:
        return values
    ended = [
        (text.decode() if isinstance(text, bytes) else text) + _END
        for text in values.flat
    ]
    return np.array(ended, np.str_).reshape(values.shape)


def unpacked(values: np.ndarray) -> np.ndarray:
    """Returns what `packed` was given, with texts as objects."""
    if values.dtype.kind != "U":
        return values
    texts = np.empty(values.size, object)
    texts[:] = [text[: -len(_END)] for text in values.flat]
    return texts.reshape(values.shape)
