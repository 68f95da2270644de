from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.svhn import read_svhn


def write_svhn(folder: Path, **changes: Any) -> None:
    """30, 10 and 20 images; image i is i everywhere, its label 1 to 10."""
    folder.mkdir(exist_ok=True)
    for part, first, size in (
        ("train", 0, 30),
        ("test", 40, 10),
        ("extra", 60, 20),
    ):
        numbers = np.arange(first, first + size, dtype=np.uint8)
        pixels = np.empty((32, 32, 3, size), np.uint8)
        pixels[:] = numbers
        arrays = {"X": pixels, "y": (numbers % 10 + 1)[:, None]} | changes
        savemat(folder / f"{part}_32x32.mat", arrays)


def refusal(folder: Path, **changes: Any) -> str:
    write_svhn(folder, **changes)
    with pytest.raises(DataError) as caught:
        read_svhn(folder, "test", "svhn")
    return str(caught.value).removeprefix(str(folder / "test_32x32.mat"))


def test_axes_and_labels(tmp_path: Path) -> None:
    pixels = np.arange(32 * 32 * 3 * 2).reshape(32, 32, 3, 2).astype(np.uint8)
    savemat(tmp_path / "test_32x32.mat", {"X": pixels, "y": [[10], [3]]})
    images = read_svhn(tmp_path, "test", "svhn")
    assert images["digit"].tolist() == [0, 3]
    for row in range(2):
        assert (images.pixels[row] == pixels[..., row]).all()


def test_validation_images_are_drawn_from_the_additional_ones(
    tmp_path: Path,
) -> None:
    write_svhn(tmp_path / "raw")
    rows = prepare("svhn", tmp_path / "raw", tmp_path / "out", progress=False)
    assert rows == {"train": 30, "validation": 20, "test": 10}
    dataset = load(tmp_path / "out")
    for name, (first, size) in {
        "train": (0, 30),
        "validation": (60, 20),
        "test": (40, 10),
    }.items():
        split = dataset.split(name)
        numbers = split.pixels[:, 0, 0, 0].astype(int)
        assert sorted(numbers) == list(range(first, first + size))
        assert split["digit"].tolist() == ((numbers + 1) % 10).tolist()


def test_what_is_not_such_an_array(tmp_path: Path) -> None:
    assert refusal(tmp_path, X=np.zeros((28, 28, 10), np.uint8)) == (
        ", column 'X': expected uint8 images (32, 32, 3, rows). "
        "Received: uint8 (28, 28, 10)"
    )
    assert "Received: float64 (32, 32, 3, 10)" in refusal(
        tmp_path, X=np.zeros((32, 32, 3, 10))
    )


@pytest.mark.parametrize("labels", [[[0]] * 10, [[1]] * 9, [[11]] * 10])
def test_labels_that_do_not_fit(tmp_path: Path, labels: Any) -> None:
    message = refusal(tmp_path, y=labels)
    assert message.startswith(", column 'y': expected 10 labels 1 to 10.")


def test_a_missing_array(tmp_path: Path) -> None:
    savemat(tmp_path / "test_32x32.mat", {"X": np.zeros(3)})
    with pytest.raises(DataError, match=r"an array 'y'\. Received: \['X'\]"):
        read_svhn(tmp_path, "test", "svhn")


@pytest.mark.parametrize("kept", [0, 100, 5000])
def test_a_file_that_is_cut_off(tmp_path: Path, kept: int) -> None:
    write_svhn(tmp_path)
    file = tmp_path / "test_32x32.mat"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(DataError, match=r"test_32x32\.mat: expected a MATLAB"):
        read_svhn(tmp_path, "test", "svhn")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"one of the files .'train_32x32\.mat"):
        prepare("svhn", tmp_path, tmp_path / "out", progress=False)


@pytest.mark.parametrize(
    ("part", "split"),
    [("train", "train"), ("extra", "validation"), ("test", "test")],
)
def test_no_images_leave_nothing(tmp_path: Path, part: str, split: str) -> None:
    raw_dir = tmp_path / "raw"
    write_svhn(raw_dir)
    none = {"X": np.empty((32, 32, 3, 0), np.uint8), "y": np.empty((0, 1))}
    savemat(raw_dir / f"{part}_32x32.mat", none)
    with pytest.raises(DataError):
        prepare("svhn", raw_dir, tmp_path / "out", progress=False)
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
