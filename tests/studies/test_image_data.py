from pathlib import Path

import numpy as np
import pytest

from studies.image_data import read_images


def write_cifar10(folder: Path, rng: np.random.Generator) -> None:
    """Two batches of 20 images and a test batch of 6, of random bytes."""
    for name, rows in (("data_batch_1", 20), ("data_batch_2", 20)):
        write_batch(folder / f"{name}.bin", rows, rng)
    write_batch(folder / "test_batch.bin", 6, rng)


def write_batch(file: Path, rows: int, rng: np.random.Generator) -> None:
    records = rng.integers(0, 256, size=(rows, 3073), dtype=np.uint8)
    records[:, 0] = np.arange(rows) % 10
    file.write_bytes(records.tobytes())


def test_all_training_images_are_there_standardised_by_channel(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    write_cifar10(tmp_path, rng)
    data = read_images("cifar-10", tmp_path)
    assert data.image_shape == (32, 32, 3)
    assert data.num_classes == 10
    assert not data.is_published
    assert sorted(data.train_labels.tolist()) == sorted([*range(10)] * 4)
    assert data.test_labels.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_allclose(data.train.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(data.train.std(axis=(0, 1, 2)), 1, atol=1e-4)
    # The test images are in the same units, and have not got means of their
    # own.
    assert np.abs(data.test.mean(axis=(0, 1, 2))).max() > 1e-5


def test_part_of_the_rows_with_their_labels(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    write_cifar10(tmp_path, rng)
    part = read_images("cifar-10", tmp_path, most_rows=12, seed=1)
    assert len(part.train) == len(part.train_labels) == 12
    assert len(part.test) == 6
    again = read_images("cifar-10", tmp_path, most_rows=12, seed=1)
    np.testing.assert_array_equal(part.train, again.train)


def test_an_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`name` must be one of.*'mnist'"):
        read_images("mnist", tmp_path)


@pytest.mark.slow
def test_the_part_of_cifar10_at_hand(real_data: Path) -> None:
    data = read_images("cifar-10", real_data / "cifar10-part")
    assert (len(data.train), len(data.test)) == (10_000, 1_000)
    assert np.bincount(data.train_labels).min() > 900
