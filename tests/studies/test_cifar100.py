import lzma
import re
from pathlib import Path

import numpy as np
import pytest

from recsys.errors import DataError
from studies.cifar100 import read_cifar100


def record(coarse: int, fine: int, pixels: bytes) -> bytes:
    return bytes([coarse, fine]) + pixels


def plain(coarse: int, fine: int, value: int = 0) -> bytes:
    return record(coarse, fine, bytes([value]) * 3072)


def write_cifar100(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [plain(i % 20, i % 100, i) for i in range(120)]
    (folder / "train.bin").write_bytes(b"".join(rows))
    (folder / "test.bin").write_bytes(plain(19, 99, 3) + plain(0, 0, 4))


@pytest.mark.parametrize("inner", [".", "cifar-100-binary"])
def test_the_fine_label_is_the_class(tmp_path: Path, inner: str) -> None:
    write_cifar100(tmp_path / inner)
    train, test = read_cifar100(tmp_path)
    assert train["class"].tolist() == [*range(100), *range(20)]
    assert test["class"].tolist() == [99, 0]
    assert test.pixels[:, 5, 7, 1].tolist() == [3, 4]


def test_planes_are_read_row_by_row(tmp_path: Path) -> None:
    write_cifar100(tmp_path)
    values = np.arange(3072).astype(np.uint8)
    packed = lzma.compress(record(2, 7, values.tobytes()))
    (tmp_path / "test.bin.xz").write_bytes(packed)
    (tmp_path / "test.bin").unlink()
    image = read_cifar100(tmp_path)[1].pixels[0]
    assert image.shape == (32, 32, 3)
    for row, column, channel in ((0, 1, 0), (1, 0, 0), (31, 30, 2)):
        expected = values[1024 * channel + 32 * row + column]
        assert image[row, column, channel] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected records of 3074 bytes. Received: 0 bytes"),
        (plain(0, 0)[:-1], "Received: 3073 bytes"),
        (
            plain(0, 0) + plain(20, 0),
            "column 'coarse', data row 2 (counted from 1): expected a label "
            "below 20. Received: 20",
        ),
        (plain(0, 100), "column 'fine', data row 1"),
    ],
)
def test_a_broken_file(tmp_path: Path, content: bytes, message: str) -> None:
    write_cifar100(tmp_path)
    (tmp_path / "train.bin").write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read_cifar100(tmp_path)
    assert "train.bin" in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected one of the files"):
        read_cifar100(tmp_path)
