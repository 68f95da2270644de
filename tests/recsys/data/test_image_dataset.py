from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recsys.data import DataError
from recsys.data import ImageDataset
from recsys.data import Images
from recsys.data import Schema
from recsys.data import load

SPLITS = ("train", "validation", "test")
SCHEMA = Schema(
    "photos", {"photo": "image"}, {"kind": "multiclass", "old": "binary"}
)
ARRAYS: dict[str, Any] = {
    "photo": np.arange(3 * 4 * 5).reshape(3, 4, 5, 1).astype(np.uint8),
    "kind": np.array([2, 0, 1]),
    "old": np.array([1, 0, 0], np.uint8),
}

FolderWriter = Callable[..., Path]


@pytest.fixture
def write_folder(tmp_path: Path) -> FolderWriter:
    """Writes a data folder; arrays of one split may be changed or left out."""

    def write(split: str = "test", **changes: Any) -> Path:
        folder = tmp_path / "photos"
        folder.mkdir()
        for name in SPLITS:
            arrays = ARRAYS | (changes if name == split else {})
            kept = {n: a for n, a in arrays.items() if a is not None}
            np.savez(folder / f"{name}.npz", **kept)
        (folder / "dataset.json").write_text(SCHEMA.to_json())
        return folder

    return write


def refusal(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(folder)
    return str(caught.value).removeprefix(str(folder))


def test_pixels_may_exceed_white(write_folder: FolderWriter) -> None:
    sums = 2 * ARRAYS["photo"].astype(np.uint16) + 400
    split = load(write_folder(photo=sums)).split("test")
    assert split.pixels.dtype == np.uint16
    np.testing.assert_array_equal(split.pixels, sums)


def test_reading(write_folder: FolderWriter) -> None:
    dataset = load(write_folder())
    assert isinstance(dataset, ImageDataset)
    assert dataset.schema == SCHEMA
    assert dataset.image_feature == "photo"
    assert dataset.image_shape == (4, 5, 1)
    assert dataset.num_classes == {"kind": 3}
    for name in SPLITS:
        split = dataset.split(name)
        np.testing.assert_array_equal(split.pixels, ARRAYS["photo"])
        assert split["kind"].tolist() == [2, 0, 1]
        assert split["old"].tolist() == [1, 0, 0]


def test_a_written_folder_reads_the_same(tmp_path: Path) -> None:
    images = Images.of(ARRAYS["photo"], {n: ARRAYS[n] for n in SCHEMA.tasks})
    dataset = ImageDataset(SCHEMA, dict.fromkeys(SPLITS, images), {"kind": 3})
    dataset.write(tmp_path / "new" / "photos")
    again = load(tmp_path / "new" / "photos")
    assert isinstance(again, ImageDataset)
    assert (again.schema, again.num_classes) == (SCHEMA, {"kind": 3})
    np.testing.assert_array_equal(again.split("test").pixels, images.pixels)
    assert again.split("test").labels.equals(images.labels)
    with pytest.raises(DataError, match="a new or empty folder"):
        dataset.write(tmp_path / "new" / "photos")


def test_a_sample_of_the_training_split_keeps_the_classes(
    write_folder: FolderWriter,
) -> None:
    dataset = load(write_folder()).with_train_rows(2)
    assert isinstance(dataset, ImageDataset)
    assert [len(dataset.split(name)) for name in SPLITS] == [2, 3, 3]
    assert dataset.num_classes == {"kind": 3}
    assert dataset.with_train_rows(None) is dataset


def test_further_arrays_are_ignored(write_folder: FolderWriter) -> None:
    assert len(load(write_folder(title=np.zeros(7))).split("test")) == 3


@pytest.mark.parametrize("split", SPLITS)
def test_missing_split(write_folder: FolderWriter, split: str) -> None:
    folder = write_folder()
    (folder / f"{split}.npz").unlink()
    message = f"/{split}.npz: expected a file. Received: none of that name"
    assert refusal(folder) == message


@pytest.mark.parametrize("array", ["photo", "kind", "old"])
def test_missing_array(write_folder: FolderWriter, array: str) -> None:
    there = [name for name in ARRAYS if name != array]
    assert refusal(write_folder(**{array: None})) == (
        f"/test.npz: expected an array {array!r}. Received: the arrays {there}"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"photo": np.zeros((3, 4, 5, 1))},
            ", column 'photo': expected uint8 or uint16 images (rows, "
            "height, width, channels). Received: float64 (3, 4, 5, 1)",
        ),
        (
            {"photo": np.zeros((3, 4, 5), np.uint8)},
            ", column 'photo': expected uint8 or uint16 images (rows, "
            "height, width, channels). Received: uint8 (3, 4, 5)",
        ),
        (
            {name: array[:0] for name, array in ARRAYS.items()},
            ": expected at least one row. Received: no rows",
        ),
        (
            {"kind": np.array([2, 0])},
            ", column 'kind': expected integers (3,), a label for each image. "
            "Received: int64 (2,)",
        ),
        (
            {"kind": np.array([2.0, 0.0, 1.0])},
            ", column 'kind': expected integers (3,), a label for each image. "
            "Received: float64 (3,)",
        ),
        (
            {"kind": np.array([2, -1, 1])},
            ", column 'kind', data row 2 (counted from 1): expected a class, "
            "0 to 99,999. Received: -1",
        ),
        (
            {"kind": np.array([2, 10**9, 1])},
            ", column 'kind', data row 2 (counted from 1): expected a class, "
            "0 to 99,999. Received: 1000000000",
        ),
        (
            {"photo": np.zeros((3, 0, 5, 1), np.uint8)},
            ": expected at least one row. Received: uint8 (3, 0, 5, 1)",
        ),
        (
            {"kind": np.array([2, 0, 3])},
            ", column 'kind', data row 3 (counted from 1): expected one of "
            "the classes 0 to 2 of train.npz. Received: 3",
        ),
        (
            {"old": np.array([1, 2, 0])},
            ", column 'old', data row 2 (counted from 1): expected 0 or 1. "
            "Received: 2",
        ),
        (
            {"photo": np.zeros((3, 5, 4, 1), np.uint8)},
            ": expected images of the shape (4, 5, 1) of those in train.npz. "
            "Received: images of the shape (5, 4, 1)",
        ),
    ],
)
def test_an_array_that_does_not_fit(
    write_folder: FolderWriter, changes: dict[str, Any], message: str
) -> None:
    assert refusal(write_folder(**changes)) == f"/test.npz{message}"


@pytest.mark.parametrize("kept", [0, 10, 300, -30])
def test_a_file_that_is_cut_off(write_folder: FolderWriter, kept: int) -> None:
    folder = write_folder()
    file = folder / "train.npz"
    file.write_bytes(file.read_bytes()[:kept])
    assert refusal(folder).startswith("/train.npz: expected a NumPy .npz file")


def test_one_array_alone(write_folder: FolderWriter) -> None:
    folder = write_folder()
    with (folder / "train.npz").open("wb") as file:
        np.save(file, ARRAYS["photo"])
    assert refusal(folder).startswith("/train.npz: expected a NumPy .npz file")


@pytest.mark.parametrize("label", [10**9, 10**12])
def test_a_label_that_is_no_class(
    write_folder: FolderWriter, label: int
) -> None:
    assert refusal(write_folder("train", kind=np.array([2, label, 1]))) == (
        "/train.npz, column 'kind', data row 2 (counted from 1): expected a "
        f"class, 0 to 99,999. Received: {label}"
    )


def test_one_class_alone(write_folder: FolderWriter) -> None:
    folder = write_folder("train", kind=np.zeros(3, int))
    assert refusal(folder) == (
        "/train.npz, column 'kind': expected at least two classes. "
        "Received: the class 0"
    )


def test_labels_of_several_tasks_are_a_table() -> None:
    pixels = np.zeros((2, 8, 8, 1), np.uint8)
    images = Images.of(pixels, {"digit": [7, 0], "odd": [1, 0]})
    table = images[["odd", "digit"]]
    assert table.to_dict("list") == {"odd": [1, 0], "digit": [7, 0]}
