from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import loadmat
from scipy.io import savemat

from recsys.data import DataError
from recsys.data.formats.mat_file import read_mat

PIXELS = np.arange(24).reshape(2, 3, 4)


def written(file: Path, packed: bool = False, **arrays: Any) -> Path:
    savemat(file, arrays, do_compression=packed)
    return file


def refusal(file: Path) -> str:
    with pytest.raises(DataError) as caught:
        read_mat(file, ["X"])
    return str(caught.value).removeprefix(str(file))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
)
def test_arrays_are_those_that_scipy_reads(
    tmp_path: Path, kind: str, packed: bool
) -> None:
    arrays = {
        "X": PIXELS.astype(kind),
        "a_name_of_many_letters": np.ones((1, 1), kind),
        "y": np.zeros((0, 3), kind),
    }
    file = written(tmp_path / "a.mat", packed, **arrays)
    read, expected = read_mat(file, list(arrays)), loadmat(file)
    for name in arrays:
        np.testing.assert_array_equal(read[name], expected[name], strict=True)


def test_what_is_not_wanted_may_be_anything(tmp_path: Path) -> None:
    others = {"text": "a", "cell": [1, "a"], "struct": {"a": 1}, "i": 1j}
    file = written(tmp_path / "a.mat", **others, X=PIXELS)
    assert read_mat(file, ["X"])["X"].shape == (2, 3, 4)


@pytest.mark.parametrize("other", ["text", [1, "a"], {"a": 1}, 1j])
def test_an_array_of_something_else(tmp_path: Path, other: Any) -> None:
    assert refusal(written(tmp_path / "a.mat", X=other)) == (
        ", column 'X': expected an array of real numbers. Received: another one"
    )


@pytest.mark.parametrize("packed", [False, True])
def test_every_cut(tmp_path: Path, packed: bool) -> None:
    file = written(tmp_path / "a.mat", packed, X=PIXELS.astype("u1"))
    content = file.read_bytes()
    for size in range(len(content)):
        file.write_bytes(content[:size])
        assert refusal(file).startswith(": expected a")


def test_every_byte_may_be_wrong(tmp_path: Path) -> None:
    file = written(tmp_path / "a.mat", X=PIXELS.astype("u1"))
    content = file.read_bytes()
    for place in range(126, len(content)):
        for value in (0, 127, 255):
            changed = bytearray(content)
            changed[place] = value
            file.write_bytes(changed)
            try:
                assert read_mat(file, ["X"])["X"].size == PIXELS.size
            except DataError as error:
                assert str(error).startswith(f"{file}")  # noqa: PT017
