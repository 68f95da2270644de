import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.progress import Progress

from recsys.columns.kind import declarations
from recsys.data import DataError
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.celeba import ATTRIBUTES
from recsys.data.datasets.celeba import celeba
from recsys.data.datasets.celeba import read_attributes
from recsys.data.datasets.celeba import read_partition

# Image i is grey value 40 i; it smiles if i is even, is male from 3 on.
NAMES = [f"00000{i}.jpg" for i in range(6)]
PARTITION = [0, 0, 0, 1, 1, 2]


@pytest.fixture
def raw_dir(tmp_path: Path) -> Path:
    """Six images of the published size with their lists."""
    folder = tmp_path / "raw"
    (folder / "img_align_celeba").mkdir(parents=True)
    lines = [str(len(NAMES)), "Young Smiling Male "]
    for i, name in enumerate(NAMES):
        pixels = np.full((218, 178, 3), 40 * i, np.uint8)
        Image.fromarray(pixels).save(folder / "img_align_celeba" / name)
        values = [1, 1 if i % 2 == 0 else -1, 1 if i >= 3 else -1]
        lines.append(f"{name} " + " ".join(f"{value:2d}" for value in values))
    (folder / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    rows = zip(NAMES, PARTITION, strict=True)
    text = "".join(f"{name} {part}\n" for name, part in rows)
    (folder / "list_eval_partition.txt").write_text(text)
    return folder


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_images_labels_and_splits(raw_dir: Path) -> None:
    dataset = celeba(
        raw_dir,
        0,
        Progress(disable=True),
        attributes=["Male", "Smiling"],
        height=20,
        width=10,
    )
    assert declarations(dataset.schema.tasks) == {
        "Male": "binary",
        "Smiling": "binary",
    }
    for split, numbers in {
        "train": [0, 1, 2],
        "validation": [3, 4],
        "test": [5],
    }.items():
        images = dataset.split(split)
        assert images.shape == (20, 10, 3)
        greys = images.pixels.mean(axis=(1, 2, 3))
        np.testing.assert_allclose(greys, [40 * i for i in numbers], atol=2)
        assert images["Male"].tolist() == [int(i >= 3) for i in numbers]
        assert images["Smiling"].tolist() == [int(i % 2 == 0) for i in numbers]


def test_defaults_are_half_the_size_and_ten_attributes(
    raw_dir: Path, tmp_path: Path
) -> None:
    file = raw_dir / "list_attr_celeba.txt"
    count, _, *rows = file.read_text().splitlines()
    rows = [f"{row.split()[0]} {'1 ' * 10}" for row in rows]
    file.write_text("\n".join([count, " ".join(ATTRIBUTES), *rows]))
    rows = prepare("celeba", raw_dir, tmp_path / "out", progress=False)
    assert rows == {"train": 3, "validation": 2, "test": 1}
    dataset = load(tmp_path / "out")
    assert dataset.split("test").shape == (109, 89, 3)
    assert list(dataset.schema.tasks) == ATTRIBUTES
    assert len(set(ATTRIBUTES)) == 10


def test_images_that_are_not_there_are_left_out(
    raw_dir: Path, tmp_path: Path
) -> None:
    (raw_dir / "img_align_celeba" / NAMES[1]).unlink()
    dataset = celeba(raw_dir, 0, Progress(disable=True), ["Male"], 20, 10)
    assert len(dataset.split("train")) == 2
    (raw_dir / "img_align_celeba" / NAMES[5]).unlink()
    with pytest.raises(DataError, match=r"images of the test split. Rec.*none"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], 20, 10)


def test_a_broken_image_is_named(raw_dir: Path) -> None:
    file = raw_dir / "img_align_celeba" / NAMES[4]
    for content in (file.read_bytes()[:300], b"no image"):
        file.write_bytes(content)
        with pytest.raises(DataError, match=r"000004.jpg: expected an image"):
            celeba(raw_dir, 0, Progress(disable=True), ["Male"], 20, 10)


def test_unknown_attribute(raw_dir: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_attributes(raw_dir, ["Smiling", "Tall"])
    assert str(caught.value) == (
        f"{raw_dir / 'list_attr_celeba.txt'}: expected an attribute 'Tall'. "
        "Received: ['Young', 'Smiling', 'Male']"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("6\n", "7\n", "line 1: expected the number of images, 6. Rec.*'7'"),
        ("000002.jpg  1", "000002.jpg  0", "line 5: expected an image's name"),
        ("000002.jpg  1", "000002.jpg", "line 5: .* and 3 of"),
    ],
)
def test_a_broken_list_of_attributes(
    raw_dir: Path, old: str, new: str, message: str
) -> None:
    change(raw_dir / "list_attr_celeba.txt", old, new)
    with pytest.raises(DataError, match=message):
        read_attributes(raw_dir, ["Male"])


def test_an_empty_list_of_attributes(raw_dir: Path) -> None:
    (raw_dir / "list_attr_celeba.txt").write_text("")
    with pytest.raises(DataError, match="an attribute 'Male'"):
        read_attributes(raw_dir, ["Male"])


def test_a_broken_partition(raw_dir: Path) -> None:
    change(raw_dir / "list_eval_partition.txt", "000003.jpg 1", "000003.jpg 3")
    with pytest.raises(DataError, match=r"line 4: .* 1 of \['0', '1', '2'\]"):
        read_partition(raw_dir)


def test_an_image_without_a_split(raw_dir: Path) -> None:
    change(raw_dir / "list_eval_partition.txt", "000003.jpg 1\n", "")
    with pytest.raises(DataError, match=r"partition\.txt: .* no 000003\.jpg"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"])


def test_a_missing_folder(raw_dir: Path) -> None:
    (raw_dir / "img_align_celeba").rename(raw_dir / "faces")
    with pytest.raises(DataError, match=r"the folder of the images. Received"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"])


@pytest.mark.parametrize("size", [{"height": 0}, {"width": -1}])
def test_sizes_are_positive(raw_dir: Path, size: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1. Received"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], **size)


@pytest.mark.parametrize("size", [{"height": 10**9}, {"width": 10**30}])
def test_sizes_have_a_bound(raw_dir: Path, size: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must be at most 1,048,576. Rece"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], **size)


def test_a_size_is_checked_before_memory_is_taken(raw_dir: Path) -> None:
    size = {"height": 2**20, "width": 2**20}
    with pytest.raises(DataError, match=r"bytes of 3 train images of") as e:
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], **size)
    assert str(e.value).startswith(f"{raw_dir / 'img_align_celeba'}: expected")


@pytest.mark.parametrize("side", [12_000, 100_000])
def test_a_decompression_bomb(raw_dir: Path, side: int) -> None:
    file = raw_dir / "img_align_celeba" / NAMES[4]
    Image.new("L", (1, 1)).save(file, "PNG")
    content = bytearray(file.read_bytes())
    start = content.index(b"IHDR")
    content[start + 4 : start + 12] = 2 * side.to_bytes(4, "big")
    checksum = zlib.crc32(content[start : start + 17])
    content[start + 17 : start + 21] = checksum.to_bytes(4, "big")
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"000004.jpg: expected an image.*bomb"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], 20, 10)


def test_formats_that_other_programs_read_are_refused(raw_dir: Path) -> None:
    file = raw_dir / "img_align_celeba" / NAMES[4]
    Image.new("L", (4, 4)).save(file, "EPS")
    with pytest.raises(DataError, match=r"000004.jpg: expected an image"):
        celeba(raw_dir, 0, Progress(disable=True), ["Male"], 20, 10)
