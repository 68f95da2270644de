from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recsys.columns.kind import declarations
from recsys.data import ImageDataset
from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.mnist import read_shuffled_mnist
from recsys.data.datasets.multi_mnist import PAIRS
from recsys.data.datasets.multi_mnist import TASKS
from recsys.data.datasets.multi_mnist import authors_pairs
from recsys.data.datasets.multi_mnist import balanced_pairs
from recsys.data.datasets.multi_mnist import overlay
from recsys.data.datasets.multi_mnist import uniform_pairs
from tests.recsys.data.idx_files import write_mnist

NAMES = ("multi-mnist", "multi-fashion-mnist")


def test_an_overlay_pixel_by_pixel() -> None:
    """Two images of 28 x 28 meet on 20 x 20 pixels of a canvas of 36 x 36."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 256, (2, 1, 28, 28, 1), dtype=np.uint8)
    canvas = overlay(first, second)
    assert canvas.shape == (1, 36, 36, 1)
    bright = 0
    for row in range(36):
        for column in range(36):
            expected = 0
            if row < 28 and column < 28:
                expected += int(first[0, row, column, 0])
            if row >= 8 and column >= 8:
                expected += int(second[0, row - 8, column - 8, 0])
            bright += expected > 255
            assert canvas[0, row, column, 0] == expected
    assert 0 < bright < 400


def test_each_image_is_shifted_by_4_pixels_from_the_middle() -> None:
    dot = np.zeros((1, 28, 28, 1), np.uint8)
    dot[0, 0, 0] = 9
    canvas = overlay(dot, dot)[0, ..., 0]
    middle = (36 - 28) // 2
    assert np.argwhere(canvas).tolist() == [
        [middle - 4, middle - 4],
        [middle + 4, middle + 4],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_small_download(tmp_path: Path, name: str) -> None:
    write_mnist(tmp_path / "raw")
    out = tmp_path / "out"
    rows = prepare(name, tmp_path / "raw", out, progress=False)
    assert rows == {"train": 100, "validation": 20, "test": 20}
    dataset = load(out)
    assert isinstance(dataset, ImageDataset)
    assert dataset.schema.name == name
    assert declarations(dataset.schema.features) == {"image": "image"}
    assert declarations(dataset.schema.tasks) == dict.fromkeys(
        TASKS, "multiclass"
    )
    assert dataset.image_shape == (36, 36, 1)
    assert dataset.num_classes == dict.fromkeys(TASKS, 10)


@pytest.mark.parametrize("pairs", [None, "balanced", "authors", "uniform"])
def test_examples_are_pairs_of_images_of_their_split(
    tmp_path: Path, pairs: str | None
) -> None:
    given = {} if pairs is None else {"pairs": pairs}
    raw = tmp_path / "raw"
    write_mnist(raw)
    prepare("multi-mnist", raw, tmp_path / "out", progress=False, **given)
    dataset = load(tmp_path / "out")
    sources = read_shuffled_mnist(raw, "mnist")
    for name, split in dataset.splits.items():
        images = sources[name].pixels[:, 0, 0, 0].astype(int).tolist()
        # In these two corners there is one image alone, and it is its number.
        top_left = split.pixels[:, 0, 0, 0].astype(int)
        bottom_right = split.pixels[:, 35, 35, 0].astype(int)
        for task, numbers in zip(TASKS, (top_left, bottom_right), strict=True):
            assert set(numbers) <= set(images)
            assert split[task].tolist() == (numbers % 10).tolist()
        assert (top_left != bottom_right).all()
        middle = split.pixels[:, 18, 18, 0]
        assert middle.tolist() == (top_left + bottom_right).tolist()
        twice = sorted(2 * images)
        assert (sorted(top_left) == twice) == (pairs != "uniform")
        balanced = pairs in (None, "balanced")
        assert (sorted(bottom_right) == twice) == balanced


def test_unknown_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="`pairs` must be one of balanced, authors, uniform"
    ):
        prepare("multi-mnist", tmp_path, tmp_path / "out", pairs="sabour")


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
    assert test.pixels.max() == 510
    for task in TASKS:
        assert test[task].nunique() == 10


seeds = st.integers(0, 2**32 - 1)


@given(num_images=st.integers(2, 40), seed=seeds)
def test_balanced_pairs_have_each_image_twice_at_each_corner(
    num_images: int, seed: int
) -> None:
    first, second = balanced_pairs(num_images, np.random.default_rng(seed))
    assert np.bincount(first).tolist() == [2] * num_images
    assert np.bincount(second).tolist() == [2] * num_images
    assert (first != second).all()


@given(num_images=st.integers(2, 40), seed=seeds)
def test_authors_pairs_have_each_image_twice_at_the_top_left(
    num_images: int, seed: int
) -> None:
    first, second = authors_pairs(num_images, np.random.default_rng(seed))
    assert first.tolist() == np.repeat(np.arange(num_images), 2).tolist()
    assert (first != second).all()
    assert 0 <= second.min() <= second.max() < num_images


@given(num_images=st.integers(2, 40), seed=seeds)
def test_uniform_pairs_are_of_different_images(
    num_images: int, seed: int
) -> None:
    first, second = uniform_pairs(num_images, np.random.default_rng(seed))
    assert len(first) == len(second) == 2 * num_images
    assert (first != second).all()
    for images in (first, second):
        assert 0 <= images.min() <= images.max() < num_images


@pytest.mark.parametrize("name", PAIRS)
def test_each_pair_is_equally_likely(name: str) -> None:
    """Of 3 images, 10,000 times: 6 ordered pairs, 60,000 in all."""
    generator = np.random.default_rng(0)
    counts = np.zeros((3, 3), int)
    for _ in range(10_000):
        np.add.at(counts, PAIRS[name](3, generator), 1)
    assert counts.sum() == 60_000
    # A derangement of 3 images is one of two, and decides all three pairs:
    # six standard deviations of two such draws, ten thousand times.
    for pair in permutations(range(3), 2):
        assert abs(counts[pair] - 10_000) < 550


def test_all_derangements_are_equally_likely() -> None:
    """There are 9 of 4 images."""
    generator = np.random.default_rng(0)
    found: dict[tuple[int, ...], int] = {}
    for _ in range(9_000):
        _, second = balanced_pairs(4, generator)
        order = tuple(second[::2].tolist())
        found[order] = found.get(order, 0) + 1
    assert len(found) == 9
    # Six standard deviations of a binomial count around 1,000.
    assert all(abs(count - 1_000) < 180 for count in found.values())


@pytest.mark.parametrize("name", ["authors", "uniform"])
def test_the_last_image_is_chosen_as_well(name: str) -> None:
    """The published code never does."""
    _, second = PAIRS[name](10, np.random.default_rng(0))
    drawn = [PAIRS[name](10, np.random.default_rng(s))[1] for s in range(50)]
    assert 9 in np.concatenate([second, *drawn])
