import gzip
from pathlib import Path

import numpy as np
import pytest

from recsys.data import DataError
from recsys.data.formats.idx_file import read_idx
from tests.recsys.data.idx_files import idx

# Two images of 2 x 3 pixels, byte by byte.
HEADER = b"\0\0\x08\x03" + b"\0\0\0\x02" + b"\0\0\0\x02" + b"\0\0\0\x03"
CONTENT = HEADER + bytes(range(12))


def refusal(file: Path, content: bytes, rank: int = 3) -> str:
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_idx(file, rank)
    return str(caught.value).removeprefix(str(file))


def test_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "images"
    file.write_bytes(CONTENT)
    array = read_idx(file, 3)
    assert array.dtype == np.uint8
    assert array.tolist() == [
        [[0, 1, 2], [3, 4, 5]],
        [[6, 7, 8], [9, 10, 11]],
    ]
    assert idx(array) == CONTENT


def test_packed(tmp_path: Path) -> None:
    file = tmp_path / "images.gz"
    file.write_bytes(gzip.compress(CONTENT))
    assert read_idx(file, 3).shape == (2, 2, 3)


@pytest.mark.parametrize("cut", [1, 12])
def test_cut_off(tmp_path: Path, cut: int) -> None:
    assert refusal(tmp_path / "images", CONTENT[:-cut]) == (
        f": expected 12 bytes of an array (2, 2, 3). Received: {12 - cut} bytes"
    )


def test_more_than_it_says(tmp_path: Path) -> None:
    message = refusal(tmp_path / "images", CONTENT + b"\0")
    assert message.endswith("Received: more")


@pytest.mark.parametrize("held", [0, 3, 8, 11])
def test_cut_off_within_the_header(tmp_path: Path, held: int) -> None:
    assert refusal(tmp_path / "images", CONTENT[: 4 + held]) == (
        f": expected 3 dimensions of 4 bytes each. Received: {held} bytes"
    )


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_size_is_checked_before_memory_is_taken(
    tmp_path: Path, suffix: str
) -> None:
    content = HEADER[:4] + 12 * b"\xff" + bytes(range(12))
    packed = gzip.compress(content) if suffix else content
    message = refusal(tmp_path / f"images{suffix}", packed)
    assert message.startswith(": expected at most the free memory")
    assert message.endswith(
        "Received: 79,228,162,458,924,105,385,300,197,375 bytes of an array "
        "(4294967295, 4294967295, 4294967295)"
    )


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (b"", "an empty file"),
        (b"\0\0\x08\x01", "00 00 08 01"),
        (b"\0\0\x0d\x03", "00 00 0d 03"),
    ],
)
def test_another_kind_of_file(
    tmp_path: Path, content: bytes, received: str
) -> None:
    assert refusal(tmp_path / "images", content) == (
        ": expected an idx file of bytes with 3 dimensions, which begins with "
        f"00 00 08 03. Received: {received}"
    )
