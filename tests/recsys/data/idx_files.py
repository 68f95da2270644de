"""Writes small downloads in the form of MNIST."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np


def idx(array: Any) -> bytes:
    """An array of bytes in the idx format."""
    header = bytes([0, 0, 8, array.ndim])
    shape = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return header + shape + array.tobytes()


def write_mnist(folder: Path, num_train: int = 60, num_test: int = 10) -> None:
    """Image i is i everywhere, 200 + i in the test file, of class i % 10."""
    folder.mkdir(exist_ok=True)
    for part, first, size in (("train", 0, num_train), ("t10k", 200, num_test)):
        numbers = np.arange(size, dtype=np.uint8)
        pixels = np.empty((size, 28, 28), np.uint8)
        pixels[:] = (first + numbers)[:, None, None]
        for name, array in (
            ("images-idx3-ubyte", pixels),
            ("labels-idx1-ubyte", numbers % 10),
        ):
            packed = gzip.compress(idx(array))
            (folder / f"{part}-{name}.gz").write_bytes(packed)
