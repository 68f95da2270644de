from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from recsys.data import ImageDataset
from recsys.data import load
from recsys.data import prepare
from recsys.data.multi_mnist import TASKS
from recsys.data.multi_mnist import draw_pairs
from recsys.data.multi_mnist import overlay
from tests.recsys.data.idx_files import write_mnist

NAMES = ("multi-mnist", "multi-fashion-mnist")


def test_an_overlay_pixel_by_pixel() -> None:
    """Two images of 28 x 28 meet on 20 x 20 pixels of a canvas of 36 x 36."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 256, (2, 1, 28, 28, 1), dtype=np.uint8)
    canvas = overlay(first, second)
    assert canvas.shape == (1, 36, 36, 1)
    assert canvas.dtype == np.uint8
    clipped = 0
    for row in range(36):
        for column in range(36):
            expected = 0
            if row < 28 and column < 28:
                expected += int(first[0, row, column, 0])
            if row >= 8 and column >= 8:
                expected += int(second[0, row - 8, column - 8, 0])
            clipped += expected > 255
            assert canvas[0, row, column, 0] == min(expected, 255)
    assert 0 < clipped < 400


def test_each_image_is_shifted_by_4_pixels_from_the_middle() -> None:
    dot = np.zeros((1, 28, 28, 1), np.uint8)
    dot[0, 0, 0] = 9
    canvas = overlay(dot, dot)[0, ..., 0]
    middle = (36 - 28) // 2
    assert np.argwhere(canvas).tolist() == [
        [middle - 4, middle - 4],
        [middle + 4, middle + 4],
    ]


def test_pairs_are_of_different_images_and_uniform() -> None:
    first, second = draw_pairs(3, 60_000, np.random.default_rng(0))
    counts = {
        pair: int(((first == pair[0]) & (second == pair[1])).sum())
        for pair in permutations(range(3), 2)
    }
    assert sum(counts.values()) == 60_000
    # Six standard deviations of a binomial count around 10,000.
    assert all(abs(count - 10_000) < 550 for count in counts.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_small_download(tmp_path: Path, name: str) -> None:
    write_mnist(tmp_path / "raw")
    out = tmp_path / "out"
    rows = prepare(name, tmp_path / "raw", out, progress=False)
    assert rows == {"train": 100, "validation": 20, "test": 20}
    dataset = load(out)
    assert isinstance(dataset, ImageDataset)
    assert dataset.schema.name == name
    assert dataset.schema.features == {"image": "image"}
    assert dataset.schema.tasks == dict.fromkeys(TASKS, "multiclass")
    assert dataset.image_shape == (36, 36, 1)
    assert dataset.num_classes == dict.fromkeys(TASKS, 10)


def test_splits_draw_from_disjoint_images_and_labels_belong_to_them(
    tmp_path: Path,
) -> None:
    write_mnist(tmp_path / "raw")
    prepare("multi-mnist", tmp_path / "raw", tmp_path / "out", progress=False)
    dataset = load(tmp_path / "out")
    sources = {"train": (0, 50), "validation": (50, 60), "test": (200, 210)}
    for name, (lowest, end) in sources.items():
        split = dataset.split(name)
        # In these two corners there is one image alone, and it is its number.
        top_left = split.pixels[:, 0, 0, 0].astype(int)
        bottom_right = split.pixels[:, 35, 35, 0].astype(int)
        for task, numbers in zip(TASKS, (top_left, bottom_right), strict=True):
            assert lowest <= numbers.min() <= numbers.max() < end
            assert split[task].tolist() == (numbers % 10).tolist()
        assert (top_left != bottom_right).all()


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    write_mnist(tmp_path / "raw")
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare(
            "multi-mnist",
            tmp_path / "raw",
            tmp_path / out,
            seed,
            progress=False,
        )
    contents = [
        {file.name: file.read_bytes() for file in (tmp_path / out).iterdir()}
        for out in "abc"
    ]
    assert contents[0] == contents[1]
    assert contents[0]["train.npz"] != contents[2]["train.npz"]


@pytest.mark.slow
def test_the_whole_download_gives_the_published_sizes(
    real_data: Path, tmp_path: Path
) -> None:
    rows = prepare(
        "multi-mnist", real_data / "mnist", tmp_path / "out", progress=False
    )
    assert rows == {"train": 100_000, "validation": 20_000, "test": 20_000}
    test = load(tmp_path / "out").split("test")
    assert test.pixels.max() == 255
    for task in TASKS:
        assert test[task].nunique() == 10
