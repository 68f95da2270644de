import gzip
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from recsys.data import DataError
from recsys.data.datasets.mnist import PUBLISHED
from recsys.data.datasets.mnist import read_mnist
from recsys.data.datasets.mnist import read_shuffled_mnist
from tests.recsys.data.idx_files import idx
from tests.recsys.data.idx_files import write_mnist


def test_the_last_sixth_of_the_training_file_is_for_validation(
    tmp_path: Path,
) -> None:
    write_mnist(tmp_path)
    splits = read_mnist(tmp_path, "mnist")
    for name, numbers in {
        "train": range(50),
        "validation": range(50, 60),
        "test": range(200, 210),
    }.items():
        split = splits[name]
        assert split.shape == (28, 28, 1)
        assert split.pixels[:, 5, 6, 0].tolist() == list(numbers)
        assert split["class"].tolist() == [n % 10 for n in numbers]


def test_the_shuffled_split_is_that_of_the_published_code(
    tmp_path: Path,
) -> None:
    """scikit-learn's, of 5/6, with each class's share, and the seed 0."""
    write_mnist(tmp_path, 180)
    splits = read_shuffled_mnist(tmp_path, "mnist")
    numbers = np.arange(180)
    train, validation = train_test_split(
        numbers,
        train_size=5 / 6,
        shuffle=True,
        stratify=numbers % 10,
        random_state=0,
    )
    expected = {
        "train": train,
        "validation": validation,
        "test": np.arange(200, 210),
    }
    for name, images in expected.items():
        split = splits[name]
        assert split.pixels[:, 5, 6, 0].tolist() == images.tolist()
        assert split["class"].tolist() == (images % 10).tolist()
    assert splits["validation"]["class"].value_counts().tolist() == [3] * 10


@pytest.mark.parametrize("num_images", [0, 1, 5, 6, 11, 30, 59, 61])
def test_a_small_part_is_split_without_shares(
    tmp_path: Path, num_images: int
) -> None:
    write_mnist(tmp_path, num_images)
    splits = read_shuffled_mnist(tmp_path, "mnist")
    assert len(splits["validation"]) == num_images // 6
    both = [splits[name].pixels[:, 0, 0, 0] for name in ("train", "validation")]
    assert sorted(np.concatenate(both)) == list(range(num_images))


@pytest.mark.slow
def test_the_shuffled_split_of_the_whole_download(real_data: Path) -> None:
    splits = read_shuffled_mnist(real_data / "mnist", "mnist")
    labels = np.concatenate(
        [splits[name]["class"] for name in ("train", "validation")]
    )
    shares = np.bincount(splits["validation"]["class"]) / np.bincount(labels)
    np.testing.assert_allclose(shares, 1 / 6, atol=1e-4)
    assert [len(split) for split in splits.values()] == [50_000, 10_000, 10_000]


def test_a_subset_is_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_mnist(tmp_path)
    with caplog.at_level(logging.WARNING):
        read_mnist(tmp_path, "mnist")
    assert caplog.messages == [
        f"{tmp_path} holds 60 training images, mnist has 60000: "
        "prepared as a subset."
    ]


def test_a_whole_training_file_with_another_test_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path)
    monkeypatch.setitem(PUBLISHED, "training images", 60)
    with pytest.raises(
        DataError, match=r"'test images': 10000}. Received: .*10"
    ):
        read_mnist(tmp_path, "mnist")


def test_files_may_be_unpacked(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    for file in list(tmp_path.iterdir()):
        content = gzip.decompress(file.read_bytes())
        file.with_suffix("").write_bytes(content)
        file.unlink()
    assert len(read_mnist(tmp_path, "mnist")["train"]) == 50


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("images-idx3-ubyte", np.zeros((60, 28, 27)), r"\(28, 28\)\. Rec"),
        (
            "images-idx3-ubyte",
            np.zeros((59, 28, 28)),
            "59 labels. Received: 60",
        ),
        ("labels-idx1-ubyte", np.arange(60), "labels below 10. Received: 59"),
    ],
)
def test_what_does_not_fit(
    tmp_path: Path, name: str, array: Any, message: str
) -> None:
    write_mnist(tmp_path)
    file = tmp_path / f"train-{name}.gz"
    file.write_bytes(gzip.compress(idx(array.astype(np.uint8))))
    with pytest.raises(DataError, match=message):
        read_mnist(tmp_path, "mnist")


def test_a_missing_file(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"one of the files .'t10k-labels"):
        read_mnist(tmp_path, "mnist")
