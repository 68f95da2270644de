import lzma
from pathlib import Path

import numpy as np
import pytest

from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare


def record(label: int, red: int, green: int, blue: int) -> bytes:
    """A label, then the red, the green and the blue plane."""
    planes = [bytes([value]) * 1024 for value in (red, green, blue)]
    return bytes([label]) + b"".join(planes)


def write_cifar10(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for batch in (1, 2):
        rows = [record(i % 10, batch, i, 255) for i in range(20)]
        (folder / f"data_batch_{batch}.bin").write_bytes(b"".join(rows))
    rows = [record(i, 9, i, 255) for i in range(10)]
    (folder / "test_batch.bin").write_bytes(b"".join(rows))


@pytest.mark.parametrize("folder", ["raw", "raw/cifar-10-batches-bin"])
def test_a_small_download(tmp_path: Path, folder: str) -> None:
    write_cifar10(tmp_path / folder)
    rows = prepare(
        "cifar10", tmp_path / "raw", tmp_path / "out", progress=False
    )
    assert rows == {"train": 36, "validation": 4, "test": 10}
    dataset = load(tmp_path / "out")
    drawn = []
    for name in ("train", "validation"):
        split = dataset.split(name)
        assert split.shape == (32, 32, 3)
        assert (split.pixels[..., 2] == 255).all()
        batch, number = split.pixels[:, 3, 4, :2].astype(int).T
        assert split["class"].tolist() == (number % 10).tolist()
        drawn += zip(batch, number, strict=True)
    assert sorted(drawn) == [(b, i) for b in (1, 2) for i in range(20)]
    assert dataset.split("test")["class"].tolist() == list(range(10))


def test_the_planes_are_read_row_by_row(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    values = np.arange(3072).astype(np.uint8)
    rows = b"".join(record(i, 0, 0, 0) for i in range(10))
    file = tmp_path / "test_batch.bin"
    file.write_bytes(b"\x07" + values.tobytes() + rows)
    prepare("cifar10", tmp_path, tmp_path / "out", progress=False)
    image = load(tmp_path / "out").split("test").pixels[0]
    for row, column, channel in ((0, 1, 0), (1, 0, 0), (31, 30, 2)):
        expected = values[1024 * channel + 32 * row + column]
        assert image[row, column, channel] == expected


def test_packed_parts_are_read_and_an_unpacked_twin_once(
    tmp_path: Path,
) -> None:
    write_cifar10(tmp_path)
    for name in ("data_batch_1", "test_batch"):
        file = tmp_path / f"{name}.bin"
        packed = lzma.compress(file.read_bytes())
        file.with_suffix(".bin.xz").write_bytes(packed)
    (tmp_path / "test_batch.bin").rename(tmp_path / "test_batch_first.txt")
    rows = prepare("cifar10", tmp_path, tmp_path / "out", progress=False)
    assert rows == {"train": 36, "validation": 4, "test": 10}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "records of 3073 bytes. Received: 0 bytes"),
        (record(1, 0, 0, 0)[:-1], "Received: 3072 bytes"),
        (
            record(1, 0, 0, 0) + record(10, 0, 0, 0),
            "data row 2 .counted from 1.: expected a label below 10. "
            "Received: 10",
        ),
    ],
)
def test_a_broken_file(tmp_path: Path, content: bytes, message: str) -> None:
    write_cifar10(tmp_path)
    (tmp_path / "data_batch_2.bin").write_bytes(content)
    with pytest.raises(DataError, match=f"data_batch_2.bin.*{message}"):
        prepare("cifar10", tmp_path, tmp_path / "out", progress=False)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"files data_batch\*\.bin. Received"):
        prepare("cifar10", tmp_path, tmp_path / "out", progress=False)
    with pytest.raises(DataError, match="expected the folder of the download"):
        prepare("cifar10", tmp_path / "no", tmp_path / "out", progress=False)


@pytest.mark.slow
def test_the_published_layout(real_data: Path, tmp_path: Path) -> None:
    rows = prepare(
        "cifar10", real_data / "cifar10-part", tmp_path / "out", progress=False
    )
    assert rows == {"train": 9000, "validation": 1000, "test": 1000}
    split = load(tmp_path / "out").split("test")
    assert split["class"].value_counts().between(80, 120).all()
    # A cat, two ships, an airplane and a frog.
    assert split["class"][:5].tolist() == [3, 8, 8, 0, 6]
    # Neighbours are alike in each direction and channel, so the axes are right.
    pixels = split.pixels.astype(float)
    for axis in (1, 2):
        assert np.abs(np.diff(pixels, axis=axis)).mean() < 20


def test_too_few_images_for_a_validation_split_leave_nothing(
    tmp_path: Path,
) -> None:
    raw_dir = tmp_path / "raw"
    raw_dir.mkdir()
    rows = b"".join(record(i, 0, i, 255) for i in range(5))
    (raw_dir / "data_batch_1.bin").write_bytes(rows)
    (raw_dir / "test_batch.bin").write_bytes(rows)
    with pytest.raises(DataError) as caught:
        prepare("cifar10", raw_dir, tmp_path / "out", progress=False)
    assert str(caught.value) == (
        f"{tmp_path / 'out'}/validation.npz: expected at least one row. "
        "Received: no rows"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]
