from pathlib import Path

import numpy as np

from recsys.data import load
from recsys.data import prepare
from recsys.data.datasets.digits import in_colour
from recsys.data.datasets.digits import sizes
from tests.recsys.data.datasets.test_svhn import write_svhn
from tests.recsys.data.idx_files import write_mnist


def test_all_images_of_svhn_are_divided_as_published() -> None:
    assert sizes(73_257 + 26_032 + 531_131) == [480_420, 75_000, 75_000]
    assert sizes(60) == [46, 7, 7]


def test_mnist_gets_a_margin_and_three_channels() -> None:
    pixels = np.arange(28 * 28).reshape(1, 28, 28, 1).astype(np.uint8)
    image = in_colour(pixels)[0]
    assert image.shape == (32, 32, 3)
    assert (image[2:30, 2:30] == pixels[0]).all()
    image[2:30, 2:30] = 0
    assert not image.any()


def test_a_small_download(tmp_path: Path) -> None:
    write_mnist(tmp_path / "raw")
    write_svhn(tmp_path / "raw")
    rows = prepare("digits", tmp_path / "raw", tmp_path / "out", progress=False)
    assert rows == {"train": 50 + 46, "validation": 10 + 7, "test": 10 + 7}
    dataset = load(tmp_path / "out")
    house_numbers = []
    for name, first, size in (
        ("train", 0, 50),
        ("validation", 50, 10),
        ("test", 200, 10),
    ):
        split = dataset.split(name)
        numbers = split.pixels[:, 5, 5, 0].astype(int)
        handwritten, others = numbers[:size], numbers[size:]
        assert handwritten.tolist() == list(range(first, first + size))
        expected = [*handwritten % 10, *(others + 1) % 10]
        assert split["digit"].tolist() == expected
        house_numbers += others.tolist()
    assert sorted(house_numbers) == [
        *range(30),
        *range(40, 50),
        *range(60, 80),
    ]


def test_the_seed_divides_svhn(tmp_path: Path) -> None:
    write_mnist(tmp_path / "raw")
    write_svhn(tmp_path / "raw")
    tests = []
    for out, seed in (("a", 1), ("b", 1), ("c", 2)):
        prepare(
            "digits", tmp_path / "raw", tmp_path / out, seed, progress=False
        )
        tests.append((tmp_path / out / "test.npz").read_bytes())
    assert tests[0] == tests[1] != tests[2]
