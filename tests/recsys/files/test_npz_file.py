import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from recsys.data import DataError
from recsys.errors import FileError
from recsys.files.npz_file import read_npz
from recsys.files.npz_file import write_npz
from tests.recsys.data.zip_files import ENCRYPTED
from tests.recsys.data.zip_files import with_compression
from tests.recsys.data.zip_files import with_flags

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def npy(header: str | bytes, values: bytes = bytes(24)) -> bytes:
    """A member of an `.npz` file with any header."""
    text = header.encode() if isinstance(header, str) else header
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + values


def npz(member: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("image.npy", member)
    return file.getvalue()


def header(shape: str = "(2, 3, 4)", dtype: str = "|u1") -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n"


def test_arrays_of_any_name_are_read_as_they_were_written(
    tmp_path: Path,
) -> None:
    arrays = {"file": IMAGES, "allow_pickle": np.zeros(0), "ü 1": np.ones(3)}
    write_npz(tmp_path / "a.npz", arrays)
    read = read_npz(tmp_path / "a.npz")
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype


def refusal(tmp_path: Path, content: bytes) -> str:
    file = tmp_path / "train.npz"
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_npz(file, ["image"])
    return str(caught.value).removeprefix(str(file))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_writes(tmp_path: Path, save: object, order: str) -> None:
    file = tmp_path / "train.npz"
    arrays = {
        "image": np.asarray(IMAGES, order=order),
        "none": np.zeros((0, 3)),
        "text": np.array(["a", "bc"]),
    }
    save(file, **arrays)
    read = read_npz(file)
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array, strict=True)
    assert read["image"].flags.writeable
    assert list(read_npz(file, ["text", "image"])) == ["text", "image"]


def test_a_header_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "train.npz"
    file.write_bytes(npz(npy(header(), IMAGES.tobytes())))
    np.testing.assert_array_equal(read_npz(file)["image"], IMAGES)


@pytest.mark.parametrize("shape", ["(1000000000000000,)", "(2, 3, 3)", "(-1,)"])
def test_a_header_of_another_size(tmp_path: Path, shape: str) -> None:
    message = refusal(tmp_path, npz(npy(header(shape))))
    assert message == (
        ": expected the 24 bytes of 'image.npy' to be an array. "
        f"Received: a header of uint8 {shape}"
    )


@pytest.mark.parametrize(
    "member",
    [
        npy("{'descr': '|u1', 'shape': ("),
        npy("[" * 9000),
        npy("-" * 9000 + "1"),
        npy("{'descr': '|u1'}"),
        npy(header(dtype="|u")),
        npy(header("(2.5,)")),
        npy(header("(3,)", "|O")),
        npy(b"\xff\xfe"),
        b"\x93NUMPY\7\0",
        b"\x93NUMPY",
        b"raw",
        b"",
    ],
)
def test_a_header_that_is_none(tmp_path: Path, member: bytes) -> None:
    assert refusal(tmp_path, npz(member)).startswith(": expected ")


def test_an_array_that_is_pickled(tmp_path: Path) -> None:
    file = tmp_path / "train.npz"
    np.savez(file, image=np.array([{}]))
    assert "expected" in refusal(tmp_path, file.read_bytes())


def test_an_encrypted_array(tmp_path: Path) -> None:
    content = with_flags(npz(npy(header())), ENCRYPTED)
    assert refusal(tmp_path, content) == (
        ": expected 'image.npy' in it not to be encrypted. "
        "Received: an encrypted file"
    )


@pytest.mark.parametrize("method", [1, 12, 14, 99])
def test_another_compression(tmp_path: Path, method: int) -> None:
    content = with_compression(npz(npy(header())), method)
    assert refusal(tmp_path, content).startswith(
        ": expected a NumPy .npz file. Received: one"
    )


def test_the_class_of_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        read_npz(tmp_path / "sample.npz", error=FileError)
    assert type(caught.value) is FileError
