import gzip
import lzma
from pathlib import Path

import pytest

from recsys.data import DataError
from recsys.data.formats.packed_file import read_packed

CONTENT = bytes(range(256)) * 20
PACKED = {
    ".bin": CONTENT,
    ".gz": gzip.compress(CONTENT),
    ".xz": lzma.compress(CONTENT),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_the_suffix_says_how_a_file_is_packed(
    tmp_path: Path, suffix: str
) -> None:
    file = tmp_path / f"batch{suffix}"
    file.write_bytes(PACKED[suffix])
    assert read_packed(file) == CONTENT


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("suffix", PACKED)
def test_what_does_not_fit_into_memory(tmp_path: Path, suffix: str) -> None:
    pack = {".bin": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    file = tmp_path / f"batch{suffix}"
    file.write_bytes(pack(bytes(1 << 23)))
    assert len(read_packed(file)) == 1 << 23
    file.write_bytes(pack(bytes(1 + (1 << 23))))
    with pytest.raises(DataError, match=f"batch{suffix}: expected at most"):
        read_packed(file)


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_what_is_broken(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"batch{suffix}"
    packed = PACKED[suffix]
    for content in (packed[:-20], packed[:30], CONTENT):
        file.write_bytes(content)
        with pytest.raises(DataError, match=f"expected a {suffix[1:]} file"):
            read_packed(file)
